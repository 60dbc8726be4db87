/* Points in the plane. */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#define GEO_DIMENSIONS 2

typedef struct geo_point {
    double x, y;
} geo_point;

/* The distance of two points. */
double geo_distance(geo_point a, geo_point b);

/* The smallest box around some points; 0 if there are none. */
int geo_box(const geo_point *points, int count, geo_point *low, geo_point *high);

/* The perimeter of a triangle. */
static inline double geo_perimeter(geo_point a, geo_point b, geo_point c)
{
    return geo_distance(a, b) + geo_distance(b, c) + geo_distance(c, a);
}

#endif
