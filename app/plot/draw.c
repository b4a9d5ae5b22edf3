/* draw.c - an arranged chart on the paper: grid, lines, marks, texts. */
#include <stddef.h>

#include "sheet.h"

/* Okabe and Ito's palette (Color Universal Design, 2008), told apart by eyes of every kind; without its yellow, which
 * white paper swallows. */
static const colour palette[] = {
    { 0.00, 0.45, 0.70 }, { 0.84, 0.37, 0.00 }, { 0.00, 0.62, 0.45 }, { 0.80, 0.47, 0.65 },
    { 0.90, 0.62, 0.00 }, { 0.34, 0.71, 0.91 }, { 0.00, 0.00, 0.00 },
};
enum { N_PALETTE = sizeof palette / sizeof palette[0], N_SHAPES = 4 };
static const colour WHITE = { 1, 1, 1 }, INK = { 0.13, 0.13, 0.13 }, GREY = { 0.38, 0.38, 0.38 };
static const colour GRID = { 0.87, 0.87, 0.87 }, GRID_FAINT = { 0.95, 0.95, 0.95 };

static void use(cairo_t *cr, colour c) {
    cairo_set_source_rgb(cr, c.r, c.g, c.b);
}

/* A series' place among those that are no bounds: its colour and its shape follow from it. */
static int rank_of(const sheet *s, int series) {
    int rank = 0;
    for (int i = 0; i < series; i++) rank += !s->chart->series[i].bound;
    return rank;
}

static colour colour_of(const sheet *s, int series) {
    if (series < 0 || s->chart->series[series].bound) return GREY;
    return palette[rank_of(s, series) % N_PALETTE];
}

/* Letters are thin: they need more contrast than a line or a mark of the same colour. */
static colour letters_of(colour c) {
    return (colour){ 0.75 * c.r, 0.75 * c.g, 0.75 * c.b };
}

static void stroke(cairo_t *cr, segment s, double width) {
    cairo_set_line_width(cr, width);
    cairo_move_to(cr, s.x0, s.y0);
    cairo_line_to(cr, s.x1, s.y1);
    cairo_stroke(cr);
}

/* ------------------------------------------------------------------------------------------------- texts */

/* Around x by `align` of its width (0: from there on, 1: up to there), its middle at y; smaller where it is wider than
 * `room`. */
static void text_at(cairo_t *cr, const char *text, double x, double y, double align, double font_size, double room) {
    double w = text_size(cr, text, font_size).w;
    if (w > room) font_size *= room / w;
    w = text_size(cr, text, font_size).w;
    cairo_move_to(cr, x - align * w, y + 0.36 * font_size);
    cairo_show_text(cr, text);
}

static void tell(FILE *told, const char *text) {
    fprintf(told, "%s\n", text);
}

static void title_draw(const sheet *s, FILE *told) {
    const plot_chart *chart = s->chart;
    double room = PLOT_WIDTH - 2 * SHEET_MARGIN;
    cairo_select_font_face(s->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    use(s->cr, INK);
    if (text_there(chart->title)) {
        text_at(s->cr, chart->title, SHEET_MARGIN, s->y_title, 0, SIZE_TITLE, room);
        tell(told, chart->title);
    }
    cairo_select_font_face(s->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    use(s->cr, GREY);
    if (!text_there(chart->subtitle)) return;
    text_at(s->cr, chart->subtitle, SHEET_MARGIN, s->y_subtitle, 0, SIZE_TEXT, room);
    tell(told, chart->subtitle);
}

/* ------------------------------------------------------------------------------------------------- frame */

static double x_of_tick(const sheet *s, int i) {
    return s->frame.x0 + (s->frame.x1 - s->frame.x0) * scale_place(&s->x, s->x.ticks[i].at);
}

static double y_of_tick(const sheet *s, int i) {
    return s->frame.y1 - (s->frame.y1 - s->frame.y0) * scale_place(&s->y, s->y.ticks[i].at);
}

/* Grid lines with a number, or the faint ones between them. */
static void grid_draw(const sheet *s, bool numbered) {
    box f = s->frame;
    use(s->cr, numbered ? GRID : GRID_FAINT);
    for (int i = 0; i < s->x.n_ticks; i++) {
        double x = x_of_tick(s, i);
        if (text_there(s->x.ticks[i].text) == numbered) stroke(s->cr, (segment){ x, f.y0, x, f.y1 }, 1.5);
    }
    for (int i = 0; i < s->y.n_ticks; i++) {
        double y = y_of_tick(s, i);
        if (text_there(s->y.ticks[i].text) == numbered) stroke(s->cr, (segment){ f.x0, y, f.x1, y }, 1.5);
    }
}

static void numbers_draw(const sheet *s) {
    double free_from = 0, baseline = s->frame.y1 + SIZE_TEXT;
    for (int i = 0; i < s->y.n_ticks; i++)
        text_at(s->cr, s->y.ticks[i].text, s->frame.x0 - SHEET_MARGIN / 2.0, y_of_tick(s, i), 1, SIZE_TEXT, PLOT_WIDTH);
    for (int i = 0; i < s->x.n_ticks; i++) {
        const char *text = s->x.ticks[i].text;
        double w = text_size(s->cr, text, SIZE_TEXT).w, x = x_of_tick(s, i);
        if (x + w / 2 > PLOT_WIDTH - 2) x = PLOT_WIDTH - 2 - w / 2;
        if (!text_there(text) || x - w / 2 < free_from) continue;
        text_at(s->cr, text, x, baseline, 0.5, SIZE_TEXT, PLOT_WIDTH);
        free_from = x + w / 2 + SIZE_TEXT / 2.0;
    }
}

static void axes_draw(const sheet *s, FILE *told) {
    const plot_chart *chart = s->chart;
    box f = s->frame;
    use(s->cr, GREY);
    stroke(s->cr, (segment){ f.x0, f.y1, f.x1, f.y1 }, 2);
    stroke(s->cr, (segment){ f.x0, f.y0, f.x0, f.y1 }, 2);
    numbers_draw(s);
    use(s->cr, INK);
    if (text_there(chart->y.label)) {
        text_at(s->cr, chart->y.label, SHEET_MARGIN, s->y_axis, 0, SIZE_TEXT, PLOT_WIDTH - 2 * SHEET_MARGIN);
        tell(told, chart->y.label);
    }
    if (text_there(chart->x.label)) {
        double y = PLOT_HEIGHT - SHEET_MARGIN - SIZE_TEXT / 2.0;
        text_at(s->cr, chart->x.label, (f.x0 + f.x1) / 2, y, 0.5, SIZE_TEXT, f.x1 - f.x0);
        tell(told, chart->x.label);
    }
}

/* ------------------------------------------------------------------------------------------------ series */

static void polygon(cairo_t *cr, double x, double y, const double (*corners)[2], int n) {
    for (int i = 0; i < n; i++) cairo_line_to(cr, x + corners[i][0] * MARK_RADIUS, y + corners[i][1] * MARK_RADIUS);
    cairo_close_path(cr);
}

/* Circle, square, triangle, diamond, of about the same area: shapes speak where colours are not seen. */
static void mark_draw(cairo_t *cr, int shape, double x, double y) {
    static const double square[][2] = { { -0.88, -0.88 }, { 0.88, -0.88 }, { 0.88, 0.88 }, { -0.88, 0.88 } };
    static const double triangle[][2] = { { 0, -1.2 }, { 1.15, 0.8 }, { -1.15, 0.8 } };
    static const double diamond[][2] = { { 0, -1.25 }, { 1.25, 0 }, { 0, 1.25 }, { -1.25, 0 } };
    cairo_new_path(cr);
    if (shape == 0) cairo_arc(cr, x, y, MARK_RADIUS, 0, 6.283185307179586);
    else if (shape == 1) polygon(cr, x, y, square, 4);
    else if (shape == 2) polygon(cr, x, y, triangle, 3);
    else polygon(cr, x, y, diamond, 4);
    cairo_fill_preserve(cr);
    cairo_save(cr);
    use(cr, WHITE);
    cairo_set_line_width(cr, 1.5);
    cairo_stroke(cr);
    cairo_restore(cr);
}

static void line_draw(const sheet *s, const plot_series *series) {
    segment piece, before = { 0 };
    bool begun = false;
    for (int j = 0; sheet_segment(s, series, &j, &piece); before = piece, begun = true) {
        if (!begun || piece.x0 != before.x1 || piece.y0 != before.y1) cairo_move_to(s->cr, piece.x0, piece.y0);
        cairo_line_to(s->cr, piece.x1, piece.y1);
    }
    cairo_set_line_width(s->cr, 4);
    cairo_stroke(s->cr);
}

static void rules_draw(const sheet *s) {
    static const double dashes[] = { 10, 8 };
    segment whole;
    use(s->cr, GREY);
    cairo_save(s->cr);
    cairo_set_line_cap(s->cr, CAIRO_LINE_CAP_BUTT);
    cairo_set_dash(s->cr, dashes, 2, 0);
    for (int i = 0; i < s->chart->n_rules; i++)
        if (sheet_rule(s, &s->chart->rules[i], &whole)) stroke(s->cr, whole, 2.5);
    cairo_restore(s->cr);
}

static void series_draw(const sheet *s) {
    const plot_chart *chart = s->chart;
    double x, y;
    for (int i = 0; i < chart->n_series; i++) {
        use(s->cr, colour_of(s, i));
        line_draw(s, &chart->series[i]);
    }
    for (int i = 0; i < chart->n_series; i++) {
        const plot_series *series = &chart->series[i];
        use(s->cr, colour_of(s, i));
        for (int j = 0; series->marks && j < series->n_points; j++)
            if (sheet_point(s, series, j, &x, &y)) mark_draw(s->cr, rank_of(s, i) % N_SHAPES, x, y);
    }
}

/* ------------------------------------------------------------------------------------------------ labels */

/* From the point to the nearest place of the text's box. */
static segment join(const label *l) {
    double w = l->size.w / 2, h = l->size.h / 2, dx = l->x - l->spot.x, dy = l->y - l->spot.y;
    segment to = { l->x, l->y, l->spot.x, l->spot.y };
    to.x1 += dx > w ? w : dx < -w ? -w : dx;
    to.y1 += dy > h ? h : dy < -h ? -h : dy;
    return to;
}

static void label_draw(const sheet *s, const label *l) {
    cairo_matrix_t turn;
    double w = l->size.w, h = l->size.h;
    cairo_save(s->cr);
    cairo_matrix_init(&turn, l->spot.ux, l->spot.uy, -l->spot.uy, l->spot.ux, l->spot.x, l->spot.y);
    cairo_transform(s->cr, &turn);
    cairo_set_source_rgba(s->cr, 1, 1, 1, 0.75); /* grid and lines stay visible below, and let the letters stand out */
    cairo_rectangle(s->cr, -w / 2 - 2, -h / 2, w + 4, h);
    cairo_fill(s->cr);
    use(s->cr, letters_of(colour_of(s, l->series)));
    text_at(s->cr, l->text, 0, 0, 0.5, SIZE_TEXT, PLOT_WIDTH);
    cairo_restore(s->cr);
}

static void labels_draw(const sheet *s, FILE *told) {
    for (int i = 0; i < s->n_labels; i++) {
        use(s->cr, colour_of(s, s->labels[i].series));
        if (s->labels[i].spot.apart) stroke(s->cr, join(&s->labels[i]), 1.5);
    }
    for (int i = 0; i < s->n_labels; i++) {
        label_draw(s, &s->labels[i]);
        tell(told, s->labels[i].text);
    }
}

static void legend_draw(const sheet *s, FILE *told) {
    legend_place at = { 0 };
    double x, y, sample = LEGEND_SAMPLE - 10;
    for (int i = 0; i < s->chart->n_series; i++) {
        const plot_series *series = &s->chart->series[i];
        if (!sheet_legend_next(s, i, &at, &x, &y)) continue;
        use(s->cr, colour_of(s, i));
        if (series->line) stroke(s->cr, (segment){ x, y, x + sample, y }, 4);
        if (series->marks) mark_draw(s->cr, rank_of(s, i) % N_SHAPES, x + sample / 2, y);
        use(s->cr, letters_of(colour_of(s, i)));
        x += LEGEND_SAMPLE;
        text_at(s->cr, series->label, x, y, 0, SIZE_TEXT, PLOT_WIDTH - SHEET_MARGIN - x);
        tell(told, series->label);
    }
}

void draw_sheet(const sheet *s, FILE *told) {
    use(s->cr, WHITE);
    cairo_paint(s->cr);
    cairo_set_line_cap(s->cr, CAIRO_LINE_CAP_ROUND);
    cairo_set_line_join(s->cr, CAIRO_LINE_JOIN_ROUND);
    title_draw(s, told);
    grid_draw(s, false);
    grid_draw(s, true);
    axes_draw(s, told);
    rules_draw(s);
    series_draw(s);
    legend_draw(s, told);
    labels_draw(s, told);
}
