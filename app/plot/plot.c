/* plot.c - a chart becomes a file: the picture is made in memory, and only a whole one is written. */
#include "plot.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sheet.h"

typedef enum picture {
    PICTURE_NONE,
    PICTURE_SVG,
    PICTURE_PNG
} picture;

static picture picture_of(const char *path) {
    const char *name = strrchr(path, '/'), *suffix;
    name = name ? name + 1 : path;
    suffix = strrchr(name, '.');
    if (!suffix || suffix == name) return PICTURE_NONE;
    return strcmp(suffix, ".svg") == 0 ? PICTURE_SVG : strcmp(suffix, ".png") == 0 ? PICTURE_PNG : PICTURE_NONE;
}

bool plot_named(const char *path) {
    return picture_of(path) != PICTURE_NONE;
}

/* ------------------------------------------------------------------------------------------------- memory */

/* Bytes that grow through a stream; whole after text_done. */
typedef struct text {
    FILE *to;
    char *at;
    size_t n;
} text;

static bool text_begin(text *t) {
    t->to = open_memstream(&t->at, &t->n);
    return t->to != NULL;
}

/* false: there was no memory for some of it. */
static bool text_done(text *t) {
    if (!t->to) return false;
    bool whole = !ferror(t->to);
    if (fclose(t->to) != 0) whole = false;
    t->to = NULL;
    return whole;
}

static void text_free(text *t) {
    text_done(t);
    free(t->at);
}

static cairo_status_t keep(void *ctx, const unsigned char *bytes, unsigned n) {
    text *t = ctx;
    return fwrite(bytes, 1, n, t->to) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_NO_MEMORY;
}

/* ------------------------------------------------------------------------------------------------ drawing */

static const char *of_cairo(cairo_status_t status) {
    return status == CAIRO_STATUS_SUCCESS ? NULL : cairo_status_to_string(status);
}

static const char NO_MEMORY[] = "no memory for the picture";

static const char *draw(cairo_surface_t *surface, const plot_chart *chart, FILE *told) {
    sheet s;
    cairo_t *cr = cairo_create(surface);
    cairo_font_options_t *font = cairo_font_options_create();
    /* Letters of the same shape and width in both kinds of picture. */
    cairo_font_options_set_antialias(font, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(font, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(font, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, font);
    cairo_font_options_destroy(font);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    bool arranged = sheet_arrange(&s, cr, chart);
    if (arranged) draw_sheet(&s, told);
    sheet_free(&s);
    const char *wrong = of_cairo(cairo_status(cr));
    cairo_destroy(cr);
    return arranged ? wrong : NO_MEMORY;
}

/* The picture's bytes, and what it says in words. */
static const char *render(const plot_chart *chart, picture kind, text *image, text *told) {
    if (!text_begin(image) || !text_begin(told)) return NO_MEMORY;
    cairo_surface_t *surface = kind == PICTURE_SVG
                                   ? cairo_svg_surface_create_for_stream(keep, image, PLOT_WIDTH, PLOT_HEIGHT)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, PLOT_WIDTH, PLOT_HEIGHT);
    if (kind == PICTURE_SVG) cairo_svg_surface_set_document_unit(surface, CAIRO_SVG_UNIT_PX);
    const char *wrong = draw(surface, chart, told->to);
    if (!wrong && kind == PICTURE_PNG) wrong = of_cairo(cairo_surface_write_to_png_stream(surface, keep, image));
    cairo_surface_finish(surface);
    if (!wrong) wrong = of_cairo(cairo_surface_status(surface));
    cairo_surface_destroy(surface);
    bool whole = text_done(image), words = text_done(told);
    return wrong || (whole && words) ? wrong : NO_MEMORY;
}

/* ------------------------------------------------------------------------------------------------ the file */

static void put_escaped(const char *words, size_t n, FILE *to) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)words[i];
        if (c == '<') fputs("&lt;", to);
        else if (c == '>') fputs("&gt;", to);
        else if (c == '&') fputs("&amp;", to);
        else if (c >= ' ' || c == '\n') putc(c, to); /* XML has no place for the other control characters */
    }
}

/* An SVG draws letters as outlines, so that it needs no font. Its words stand in it once more, behind the first tag,
 * for whoever searches or hears a page. */
static void put_svg(const text *image, const text *told, FILE *to) {
    const char *tag = strstr(image->at, "<svg"), *end = tag ? strchr(tag, '>') : NULL;
    size_t head = end ? (size_t)(end + 1 - image->at) : 0;
    fwrite(image->at, 1, head, to);
    if (head > 0 && told->n > 0) {
        size_t first = (size_t)(strchr(told->at, '\n') - told->at);
        fputs("\n<title>", to);
        put_escaped(told->at, first, to);
        fputs("</title>\n<desc>", to);
        put_escaped(told->at + first + 1, told->n - first - 1, to);
        fputs("</desc>", to);
    }
    fwrite(image->at + head, 1, image->n - head, to);
}

static const char *save(const char *path, picture kind, const text *image, const text *told) {
    FILE *to = fopen(path, "wb");
    if (!to) return strerror(errno);
    errno = 0;
    if (kind == PICTURE_SVG) put_svg(image, told, to);
    else fwrite(image->at, 1, image->n, to);
    bool whole = !ferror(to);
    int reason = errno;
    if (fclose(to) != 0) {
        if (whole) reason = errno;
        whole = false;
    }
    if (whole) return NULL;
    remove(path);
    return strerror(reason);
}

const char *plot_write(const plot_chart *chart, const char *path) {
    text image = { 0 }, told = { 0 };
    picture kind = picture_of(path);
    if (kind == PICTURE_NONE) return "the name of a picture ends in .svg or .png";
    const char *wrong = render(chart, kind, &image, &told);
    if (!wrong) wrong = save(path, kind, &image, &told);
    text_free(&image);
    text_free(&told);
    return wrong;
}
