#include "geometry.h"

#include <math.h>

double geo_distance(geo_point a, geo_point b)
{
    return hypot(b.x - a.x, b.y - a.y);
}

int geo_box(const geo_point *points, int count, geo_point *low, geo_point *high)
{
    for (int i = 0; i < count; i++) {
        geo_point at = points[i];
        low->x = i == 0 ? at.x : fmin(low->x, at.x);
        low->y = i == 0 ? at.y : fmin(low->y, at.y);
        high->x = i == 0 ? at.x : fmax(high->x, at.x);
        high->y = i == 0 ? at.y : fmax(high->y, at.y);
    }
    return count > 0;
}
