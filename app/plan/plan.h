/* plan.h - the door of the plans: what a cache would hold and cost, before there is one. Traces of requests and what
 * policies make of them; memory over time. Everything about the cache itself is asked of kvtile.h. */
#ifndef PLAN_H
#define PLAN_H

#include "capacity.h"
#include "occupancy.h"
#include "policy.h"
#include "shape.h"
#include "sweep.h"
#include "trace.h"

#endif
