/* test_plot.c - charts: files of the right kind that say what they show, odd numbers that spoil nothing, ticks that are
 * round, labels that lie on nothing, failures that leave no half a picture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "kvtile_ops.h"
#include "plot/plot.h"
#include "plot/scale.h"
#include "plot/sheet.h"
#include "random.h"

/* ------------------------------------------------------------------------------------------- helpers */

/* A leak sanitizer asks for this. The font library keeps what it read for the next picture, up to the end. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig";
}

static char folder[64];

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int folder_make(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, P_tmpdir "/kvtile-plot-%ld", (long)getpid());
    return mkdir(folder, 0700);
}

static int folder_remove(void **state) {
    static const char *const names[] = { "a.svg", "a.png", "gap.svg", "kept.svg", "folder.svg" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(path_of(names[i]));
    return rmdir(folder);
}

/* An SVG written and read back, found well-formed by another parser, without a number that is none. */
static char *svg_of(const plot_chart *chart) {
    char command[512];
    const char *path = path_of("a.svg"), *wrong = plot_write(chart, path);
    if (wrong) fail_msg("not written: %s", wrong);
    snprintf(command, sizeof command, "python3 -c 'import xml.etree.ElementTree as e; e.parse(\"%s\")'", path);
    assert_int_equal(system(command), 0);
    char *text = fixture_read(path, NULL);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    return text;
}

/* The words of a picture: what stands in its description. */
static bool says(const char *svg, const char *line) {
    char wanted[128];
    const char *words = strstr(svg, "<title>"), *end = strstr(svg, "</desc>");
    snprintf(wanted, sizeof wanted, "%s\n", line);
    const char *at = words ? strstr(words, wanted) : NULL;
    return at && end && at < end && (at[-1] == '\n' || at[-1] == '>');
}

static plot_chart chart_of(const plot_series *series, int n) {
    return (plot_chart){ .title = "A title", .x = { .label = "along" }, .y = { .label = "up" }, .series = series,
                         .n_series = n };
}

/* ------------------------------------------------------------------------------------------- pictures */

static void test_files_are_what_their_names_say(void **state) {
    (void)state;
    const double x[] = { 1, 2, 3 }, y[] = { 10, 30, 20 };
    plot_series line = { .label = "a line", .x = x, .y = y, .n_points = 3, .line = true, .marks = true };
    plot_chart chart = chart_of(&line, 1);
    size_t n;

    assert_null(plot_write(&chart, path_of("a.png")));
    char *png = fixture_read(path_of("a.png"), &n);
    assert_true(n > 1000);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    assert_memory_equal(png + 16, "\0\0\x04\xb0\0\0\x02\xee", 8); /* 1200 x 750 */
    free(png);

    char *svg = svg_of(&chart);
    assert_memory_equal(svg, "<?xml", 5);
    assert_non_null(strstr(svg, "<svg"));
    assert_non_null(strstr(svg, "width=\"1200px\" height=\"750px\""));
    free(svg);

    assert_true(plot_named("a.svg") && plot_named("/b.d/c.png"));
    assert_false(plot_named("a.jpg") || plot_named("svg") || plot_named(".svg") || plot_named("a.svg/b") ||
                 plot_named("a.SVG") || plot_named(""));
}

static void test_a_picture_says_what_it_shows(void **state) {
    (void)state;
    const double x[] = { 1, 10, 100 }, y[] = { 1, 5, 9 };
    const char *names[] = { "first", NULL, "last" };
    plot_series series[] = {
        { .label = "marks <&>", .x = x, .y = y, .names = names, .n_points = 3, .marks = true },
        { .label = "a roof", .x = x, .y = y, .n_points = 3, .line = true, .bound = true },
    };
    plot_rule rules[] = { { "a limit", 7, false }, { "a knee", 30, true } };
    plot_note note = { "look here", 5, 8 };
    plot_chart chart = chart_of(series, 2);
    chart.subtitle = "below the title";
    chart.x.log = true;
    chart.rules = rules;
    chart.n_rules = 2;
    chart.notes = &note;
    chart.n_notes = 1;
    char *svg = svg_of(&chart);
    static const char *const lines[] = { "below the title", "along", "up", "marks &lt;&amp;&gt;", "a roof", "a limit",
                                         "a knee", "look here", "first", "last" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!says(svg, lines[i])) fail_msg("\"%s\" is missing", lines[i]);
    assert_non_null(strstr(svg, "<title>A title</title>"));
    free(svg);
}

static void test_control_characters_do_not_reach_xml(void **state) {
    (void)state;
    plot_chart chart = { .title = "a\x01\x1b[31mb" };
    char *svg = svg_of(&chart);
    assert_non_null(strstr(svg, "<title>a[31mb</title>"));
    free(svg);
}

/* ------------------------------------------------------------------------------------------ odd numbers */

static void test_odd_numbers_spoil_nothing(void **state) {
    (void)state;
    static const double one[] = { 5 }, equal[] = { 7, 7, 7 }, zero[] = { 0, 0 }, wide[] = { -1e300, 0, 1e300 };
    static const double tall[] = { 1e-300, 1, 1e300 }, close[] = { 1e15, 1e15 + 1, 1e15 + 2 }, none[] = { NAN, -NAN };
    static const double beyond[] = { INFINITY, -INFINITY, 1.7e308 }, below[] = { 0, -1, 5e-324 };
    static const struct {
        const double *v;
        int n;
        bool shown[2]; /* on linear axes, on logarithmic ones */
    } cases[] = { { one, 1, { true, true } },   { equal, 3, { true, true } },    { zero, 2, { true, false } },
                  { wide, 3, { true, true } },  { tall, 3, { true, true } },     { close, 3, { true, true } },
                  { none, 2, { false, false } }, { beyond, 3, { false, false } }, { below, 3, { true, false } },
                  { one, 0, { false, false } }, { NULL, 0, { false, false } } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int log = 0; log < 2; log++) {
            plot_series s = { .label = "odd", .x = cases[i].v, .y = cases[i].v, .n_points = cases[i].n, .line = true,
                              .marks = true };
            plot_chart chart = chart_of(&s, 1);
            chart.x.log = chart.y.log = log;
            char *svg = svg_of(&chart);
            assert_int_equal(says(svg, "odd"), cases[i].shown[log]);
            free(svg);
        }
    plot_chart empty = { 0 };
    free(svg_of(&empty));
}

/* Marks that are drawn. */
static int n_points_seen(const plot_chart *chart) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 10, 10);
    cairo_t *cr = cairo_create(surface);
    sheet s;
    int n = 0;
    double x, y;
    assert_true(sheet_arrange(&s, cr, chart));
    for (int i = 0; i < chart->n_series; i++)
        for (int j = 0; j < chart->series[i].n_points; j++) n += sheet_point(&s, &chart->series[i], j, &x, &y);
    sheet_free(&s);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return n;
}

static void test_what_has_no_place_is_left_out(void **state) {
    (void)state;
    const double x[] = { 1, 2, NAN, 4, 5, 0 }, y[] = { 1, 2, 3, INFINITY, 5, 3 };
    const char *names[] = { "one", "two", "three", "four", "five", "zero" };
    plot_series s = { .label = "points", .x = x, .y = y, .names = names, .n_points = 6, .marks = true };
    plot_chart chart = chart_of(&s, 1);
    chart.x.log = true;
    char *svg = svg_of(&chart);
    assert_true(says(svg, "one") && says(svg, "two") && says(svg, "five"));
    assert_false(says(svg, "three") || says(svg, "four") || says(svg, "zero"));
    free(svg);
    chart.x = (plot_axis){ .least = 1.5, .most = 4 }; /* a range that was asked for leaves out, too */
    svg = svg_of(&chart);
    assert_true(says(svg, "two") && !says(svg, "one") && !says(svg, "five"));
    free(svg);
    assert_int_equal(n_points_seen(&chart), 1);
    const double nan2[] = { NAN, NAN };
    plot_series unseen = { .label = "unseen", .x = nan2, .y = nan2, .n_points = 2, .line = true, .marks = true };
    chart = chart_of(&unseen, 1);
    svg = svg_of(&chart);
    assert_false(says(svg, "unseen"));
    free(svg);
}

static void test_a_line_has_a_gap_where_a_point_is_missing(void **state) {
    (void)state;
    const double x[] = { 1, 2, 3, 4, 5 }, y[] = { 1, 2, NAN, 4, 5 };
    plot_series s = { .x = x, .y = y, .n_points = 5, .line = true };
    plot_chart chart = chart_of(&s, 1);
    char *svg = svg_of(&chart);
    char *line = strstr(svg, "stroke-width:4;");
    assert_non_null(line);
    char *at = strstr(line, " d=\"") + 4, *end = strchr(at, '"');
    int begins = 0;
    for (; at < end; at++) begins += *at == 'M';
    assert_int_equal(begins, 2);
    free(svg);
}

/* -------------------------------------------------------------------------------------------------- ticks */

static void test_ticks_are_round_and_spelled_alike(void **state) {
    (void)state;
    static const struct {
        plot_axis axis; /* with a range */
        const char *ticks;
    } cases[] = {
        { { .least = 0, .most = 70 }, "0 10 20 30 40 50 60 70" },
        { { .least = 0, .most = 1 }, "0 0.2 0.4 0.6 0.8 1.0" },
        { { .least = -3, .most = 3 }, "-3 -2 -1 0 1 2 3" },
        { { .least = 0, .most = 40000 }, "0 5,000 10,000 15,000 20,000 25,000 30,000 35,000 40,000" },
        { { .least = 0, .most = 2.1e9 }, "0 5e8 1.0e9 1.5e9 2.0e9" },
        { { .least = 0, .most = 2.1e9, .unit = "B" }, "0 0.5_GB 1.0_GB 1.5_GB 2.0_GB" },
        { { .least = 0, .most = 0.004, .unit = "s" }, "0 0.5_ms 1.0_ms 1.5_ms 2.0_ms 2.5_ms 3.0_ms 3.5_ms 4.0_ms" },
        { { .least = 0.02, .most = 300, .log = true }, "0.1 1 10 100" },
        { { .least = 1, .most = 100, .log = true }, "1 2 5 10 20 50 100" },
        { { .least = 1e3, .most = 1e8, .log = true, .unit = "B" }, "1_kB 10_kB 100_kB 1_MB 10_MB 100_MB" },
        { { .least = 40, .most = 48, .log = true }, "40 41 42 43 44 45 46 47 48" },
        { { .least = 1e-30, .most = 1e30, .log = true }, "1e-30 1e-20 1e-10 1 1e10 1e20 1e30" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[512] = "";
        scale s = scale_of(&cases[i].axis, 1, 0);
        for (int t = 0; t < s.n_ticks; t++) {
            char *blank = strchr(s.ticks[t].text, ' ');
            if (blank) *blank = '_'; /* which tells it from the one between two ticks */
            if (!s.ticks[t].text[0]) continue;
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", got[0] ? " " : "", s.ticks[t].text);
        }
        assert_string_equal(got, cases[i].ticks);
    }
}

static void test_any_range_has_a_few_ascending_ticks(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        plot_axis axis = { .log = i % 2, .unit = i % 3 ? NULL : "B" };
        double unit = kvt_exp(random_between(&seed, -600, 600));
        double least = axis.log ? unit : unit * random_between(&seed, -1, 1);
        double most = least + unit * kvt_exp(random_between(&seed, -30, 10)) * random_below(&seed, 3);
        if (!scale_holds(&axis, least) || !scale_holds(&axis, most)) continue;
        scale s = scale_of(&axis, least, most);
        int n = 0;
        double before = -INFINITY;
        for (int t = 0; t < s.n_ticks; t++) {
            double place = scale_place(&s, s.ticks[t].at);
            assert_true(s.ticks[t].at > before && place > -1e-6 && place < 1 + 1e-6);
            before = s.ticks[t].at;
            n += s.ticks[t].text[0] != 0;
        }
        if (n < 2 || n > 11) fail_msg("%d numbers from %g to %g, logarithmic: %d", n, least, most, axis.log);
        assert_true(scale_place(&s, least) >= -1e-9 && scale_place(&s, most) <= 1 + 1e-9);
    }
}

/* ------------------------------------------------------------------------------------------------- labels */

/* Corners of a label, in its order round it. */
static void corners(const label *l, double out[4][2]) {
    for (int i = 0; i < 4; i++) {
        double along = (i == 1 || i == 2 ? 0.5 : -0.5) * l->size.w, up = (i > 1 ? 0.5 : -0.5) * l->size.h;
        out[i][0] = l->spot.x + along * l->spot.ux - up * l->spot.uy;
        out[i][1] = l->spot.y + along * l->spot.uy + up * l->spot.ux;
    }
}

/* Whether a direction separates two labels. */
static bool apart(double a[4][2], double b[4][2], double x, double y) {
    double a0 = INFINITY, a1 = -INFINITY, b0 = INFINITY, b1 = -INFINITY;
    for (int i = 0; i < 4; i++) {
        double p = a[i][0] * x + a[i][1] * y, q = b[i][0] * x + b[i][1] * y;
        a0 = fmin(a0, p), a1 = fmax(a1, p), b0 = fmin(b0, q), b1 = fmax(b1, q);
    }
    return a1 <= b0 || b1 <= a0;
}

static bool labels_meet(const label *l, const label *m) {
    double a[4][2], b[4][2];
    corners(l, a);
    corners(m, b);
    return !apart(a, b, l->spot.ux, l->spot.uy) && !apart(a, b, -l->spot.uy, l->spot.ux) &&
           !apart(a, b, m->spot.ux, m->spot.uy) && !apart(a, b, -m->spot.uy, m->spot.ux);
}

/* All labels of a chart inside its frame, none on another and none on a mark; how many there are. */
static int labels_good(const plot_chart *chart) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 10, 10);
    cairo_t *cr = cairo_create(surface);
    sheet s;
    assert_true(sheet_arrange(&s, cr, chart));
    for (int i = 0; i < s.n_labels; i++) {
        double c[4][2], x, y;
        corners(&s.labels[i], c);
        for (int j = 0; j < 4; j++)
            assert_true(c[j][0] >= s.frame.x0 && c[j][0] <= s.frame.x1 && c[j][1] >= s.frame.y0 &&
                        c[j][1] <= s.frame.y1);
        for (int j = 0; j < i; j++)
            if (labels_meet(&s.labels[i], &s.labels[j]))
                fail_msg("\"%s\" lies on \"%s\"", s.labels[i].text, s.labels[j].text);
        for (int k = 0; k < chart->n_series; k++)
            for (int j = 0; chart->series[k].marks && j < chart->series[k].n_points; j++) {
                if (!sheet_point(&s, &chart->series[k], j, &x, &y)) continue;
                label mark = { .spot = { .x = x, .y = y, .ux = 1 }, .size = { MARK_RADIUS, MARK_RADIUS } };
                assert_false(labels_meet(&s.labels[i], &mark));
            }
    }
    assert_true(s.frame.y1 - s.frame.y0 > PLOT_HEIGHT / 2.0);
    int n = s.n_labels;
    sheet_free(&s);
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    return n;
}

static void test_labels_lie_on_nothing(void **state) {
    (void)state;
    enum { SERIES = 5, POINTS = 12 };
    static double x[SERIES][POINTS], y[SERIES][POINTS];
    static char texts[SERIES][POINTS][16];
    static const char *names[SERIES][POINTS];
    uint64_t seed = 3;
    for (int round = 0; round < 100; round++) {
        plot_series series[SERIES];
        for (int i = 0; i < SERIES; i++) {
            for (int j = 0; j < POINTS; j++) {
                x[i][j] = 1 + random_below(&seed, 100);
                y[i][j] = 1 + random_below(&seed, 100);
                snprintf(texts[i][j], sizeof texts[i][j], "name %d %d", i, j);
                names[i][j] = texts[i][j];
            }
            series[i] = (plot_series){ .label = texts[i][0], .x = x[i], .y = y[i], .n_points = i ? POINTS : 3,
                                       .names = i ? names[i] : NULL, .line = i < 3, .marks = i > 0, .bound = !i };
        }
        plot_rule rules[] = { { "a level", random_below(&seed, 100), false },
                              { "a place", 1 + random_below(&seed, 100), true } };
        plot_chart chart = chart_of(series, SERIES);
        chart.x.log = chart.y.log = round % 2;
        chart.rules = rules;
        chart.n_rules = 2;
        assert_true(labels_good(&chart) > 15);
    }
}

static void test_series_without_room_go_to_a_legend(void **state) {
    (void)state;
    enum { SERIES = 30, POINTS = 200 };
    static double x[POINTS], y[POINTS];
    static char labels[SERIES][64];
    static plot_series series[SERIES];
    for (int i = 0; i < POINTS; i++) x[i] = y[i] = i;
    for (int i = 0; i < SERIES; i++) {
        snprintf(labels[i], sizeof labels[i], "one of many series, number %d", i);
        series[i] = (plot_series){ .label = labels[i], .x = x, .y = y, .n_points = POINTS, .line = true };
        series[i].marks = true;
    }
    plot_chart chart = chart_of(series, 6);
    char *svg = svg_of(&chart);
    for (int i = 0; i < 6; i++) assert_true(says(svg, labels[i]));
    free(svg);
    chart.n_series = SERIES; /* too many even for a legend: the picture keeps its frame */
    labels_good(&chart);
    free(svg_of(&chart));
}

static void test_points_on_each_other_are_named_together(void **state) {
    (void)state;
    const double x[] = { 1, 2, 2.001, 2.002, 3, 3.001 };
    const char *names[] = { "a", "b", "c", "d", "e", "f" };
    plot_series s = { .x = x, .y = x, .names = names, .n_points = 6, .marks = true };
    plot_chart chart = chart_of(&s, 1);
    char *svg = svg_of(&chart);
    assert_true(says(svg, "a") && says(svg, "b \u2026 d") && says(svg, "e and f"));
    assert_false(says(svg, "b") || says(svg, "c") || says(svg, "f"));
    free(svg);
}

static void test_long_texts_stay_on_the_paper(void **state) {
    (void)state;
    static char text[600];
    memset(text, 'W', sizeof text - 1);
    const double x[] = { 1, 2 };
    plot_series s = { .label = text, .x = x, .y = x, .n_points = 2, .line = true };
    plot_chart chart = { .title = text, .subtitle = text, .x = { .label = text }, .y = { .label = text }, .series = &s,
                         .n_series = 1 };
    assert_null(plot_write(&chart, path_of("a.png")));
    cairo_surface_t *png = cairo_image_surface_create_from_png(path_of("a.png"));
    const unsigned char *pixels = cairo_image_surface_get_data(png);
    for (int row = 0; row < PLOT_HEIGHT; row++) {
        uint32_t last;
        memcpy(&last, pixels + row * cairo_image_surface_get_stride(png) + 4 * (PLOT_WIDTH - 3), sizeof last);
        assert_int_equal(last & 0xffffff, 0xffffff);
    }
    cairo_surface_destroy(png);
}

/* ------------------------------------------------------------------------------------------------ failures */

static bool there(const char *name) {
    struct stat st;
    return lstat(path_of(name), &st) == 0;
}

static void test_what_cannot_be_written_is_told(void **state) {
    (void)state;
    plot_chart chart = { .title = "A title" };
    assert_non_null(strstr(plot_write(&chart, path_of("a.jpg")), ".svg or .png"));
    assert_string_equal(plot_write(&chart, path_of("nowhere/a.svg")), "No such file or directory");
    assert_int_equal(mkdir(path_of("folder.svg"), 0700), 0);
    assert_string_equal(plot_write(&chart, path_of("folder.svg")), "Is a directory");
    assert_true(there("folder.svg"));
}

static void test_a_full_disk_leaves_no_half_a_picture(void **state) {
    (void)state;
    plot_chart chart = { .title = "A title", .x = { .label = "along" } };
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "full.svg" : "full.png";
        assert_int_equal(symlink("/dev/full", path_of(name)), 0);
        assert_string_equal(plot_write(&chart, path_of(name)), "No space left on device");
        assert_false(there(name));
    }
    /* Full in the middle of the file, and before its last byte, which is still in a buffer when the file is closed. */
    size_t n;
    assert_null(plot_write(&chart, path_of("a.svg")));
    free(fixture_read(path_of("a.svg"), &n));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        small.rlim_cur = i ? n / 2 : n - 1;
        setrlimit(RLIMIT_FSIZE, &small);
        const char *wrong = plot_write(&chart, path_of("half.svg"));
        setrlimit(RLIMIT_FSIZE, &before);
        assert_non_null(wrong);
        assert_string_equal(wrong, "File too large");
        assert_false(there("half.svg"));
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void test_a_text_that_is_none_leaves_the_old_picture(void **state) {
    (void)state;
    size_t n, n_then;
    plot_chart chart = { .title = "A title" };
    assert_null(plot_write(&chart, path_of("kept.svg")));
    char *before = fixture_read(path_of("kept.svg"), &n);
    chart.title = "no \xff UTF-8";
    const char *wrong = plot_write(&chart, path_of("kept.svg"));
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "UTF-8"));
    char *then = fixture_read(path_of("kept.svg"), &n_then);
    assert_true(n == n_then && memcmp(before, then, n) == 0);
    free(before);
    free(then);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_what_their_names_say),
        cmocka_unit_test(test_a_picture_says_what_it_shows),
        cmocka_unit_test(test_control_characters_do_not_reach_xml),
        cmocka_unit_test(test_odd_numbers_spoil_nothing),
        cmocka_unit_test(test_what_has_no_place_is_left_out),
        cmocka_unit_test(test_a_line_has_a_gap_where_a_point_is_missing),
        cmocka_unit_test(test_ticks_are_round_and_spelled_alike),
        cmocka_unit_test(test_any_range_has_a_few_ascending_ticks),
        cmocka_unit_test(test_labels_lie_on_nothing),
        cmocka_unit_test(test_series_without_room_go_to_a_legend),
        cmocka_unit_test(test_points_on_each_other_are_named_together),
        cmocka_unit_test(test_long_texts_stay_on_the_paper),
        cmocka_unit_test(test_what_cannot_be_written_is_told),
        cmocka_unit_test(test_a_full_disk_leaves_no_half_a_picture),
        cmocka_unit_test(test_a_text_that_is_none_leaves_the_old_picture),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
