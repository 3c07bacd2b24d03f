// Tiles for one set of instructions. Whoever includes this defines NAME, which makes a name of that set, TARGET, the
// vector V of WIDTH floats, WIDE_BF16 and WIDE_S8, which read WIDTH numbers, SPLAT, which repeats one, and FMA, a·b +
// c. A tile multiplies a number of units of a panel by ROWS rows of x [·, in], to y [ROWS, units·UNIT]. Its sums are
// registers. With each step it calls weights AHEAD into the second cache: what the processor foresees by itself is too
// near.

#define TILE(TYPE, WIDE, UNITS, ROWS)                                                                 \
	TARGET static void NAME(TYPE##_##UNITS##x##ROWS)(const TYPE *w, int64_t in, const float *x, float *y) { \
		enum { VECTORS = UNITS * UNIT / WIDTH };                                                      \
		V s[ROWS][VECTORS];                                                                           \
		for (int r = 0; r < ROWS; r++)                                                                \
			for (int v = 0; v < VECTORS; v++)                                                         \
				s[r][v] = SPLAT(0);                                                                   \
		for (int64_t k = 0; k < in; k++, w += PANEL) {                                                \
			for (int l = 0; l < (int)(PANEL * sizeof *w); l += LINE)                                  \
				__builtin_prefetch((const char *)w + AHEAD + l, 0, 2);                                \
			V a[VECTORS];                                                                             \
			for (int v = 0; v < VECTORS; v++)                                                         \
				a[v] = WIDE(w + v * WIDTH);                                                           \
			for (int r = 0; r < ROWS; r++) {                                                          \
				V b = SPLAT(x[r * in + k]);                                                           \
				for (int v = 0; v < VECTORS; v++)                                                     \
					s[r][v] = FMA(a[v], b, s[r][v]);                                                  \
			}                                                                                         \
		}                                                                                             \
		memcpy(y, s, sizeof s);                                                                       \
	}

#define TILES(TYPE, WIDE, UNITS)                                                                               \
	TILE(TYPE, WIDE, UNITS, 1)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 2)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 3)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 4)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 5)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 6)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 7)                                                                                 \
	TILE(TYPE, WIDE, UNITS, 8)                                                                                 \
	static tile *const NAME(TYPE##_##UNITS)[] = {                                                              \
		(tile *)NAME(TYPE##_##UNITS##x1), (tile *)NAME(TYPE##_##UNITS##x2), (tile *)NAME(TYPE##_##UNITS##x3),  \
		(tile *)NAME(TYPE##_##UNITS##x4), (tile *)NAME(TYPE##_##UNITS##x5), (tile *)NAME(TYPE##_##UNITS##x6),  \
		(tile *)NAME(TYPE##_##UNITS##x7), (tile *)NAME(TYPE##_##UNITS##x8)};

TILES(uint16_t, WIDE_BF16, 1)
TILES(uint16_t, WIDE_BF16, 2)
TILES(uint16_t, WIDE_BF16, 4)
TILES(int8_t, WIDE_S8, 1)
TILES(int8_t, WIDE_S8, 2)
TILES(int8_t, WIDE_S8, 4)

#undef TILE
#undef TILES
#undef NAME
#undef TARGET
#undef V
#undef WIDTH
#undef WIDE_BF16
#undef WIDE_S8
#undef SPLAT
#undef FMA
