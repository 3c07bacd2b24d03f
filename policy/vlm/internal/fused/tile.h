// Tiles for one set of instructions. Whoever includes this defines NAME, which makes a name of that set. A tile
// multiplies a number of units of a panel by ROWS rows of x, to y [ROWS, units·UNIT]. With each step it calls weights
// AHEAD into the second cache: what the processor foresees by itself is too near.
//
// For bfloat16, TARGET, the vector V of WIDTH floats, WIDE, which reads WIDTH numbers, SPLAT, which repeats one, and
// FMA, a·b + c, are defined, too. Sums are registers.
//
// For int8, it is TARGET8, the vector I8 of WIDTH8 whole numbers, LOAD8, which reads four weights of each output,
// SPLAT8, which repeats four numbers of x, DOT8, which adds their products to whole numbers that begin at START8 of a
// block of x, and ADD8, which adds whole numbers times a scale to floats. Those of a block are registers.

#define AHEAD_OF(w)                                             \
	for (int l = 0; l < (int)(PANEL * sizeof *w); l += LINE) \
		__builtin_prefetch((const char *)(w) + AHEAD + l, 0, 2);

#define TILE(UNITS, ROWS)                                                                                    \
	TARGET static void NAME(bf16_##UNITS##x##ROWS)(const void *of, int64_t in, const void *row, float *y) {  \
		enum { VECTORS = UNITS * UNIT / WIDTH };                                                             \
		const uint16_t *w = of;                                                                              \
		const float *x = row;                                                                                \
		V s[ROWS][VECTORS];                                                                                  \
		for (int r = 0; r < ROWS; r++)                                                                       \
			for (int v = 0; v < VECTORS; v++)                                                                \
				s[r][v] = SPLAT(0);                                                                          \
		for (int64_t k = 0; k < in; k++, w += PANEL) {                                                       \
			AHEAD_OF(w)                                                                                      \
			V a[VECTORS];                                                                                    \
			for (int v = 0; v < VECTORS; v++)                                                                \
				a[v] = WIDE(w + v * WIDTH);                                                                  \
			for (int r = 0; r < ROWS; r++) {                                                                 \
				V b = SPLAT(x[r * in + k]);                                                                  \
				for (int v = 0; v < VECTORS; v++)                                                            \
					s[r][v] = FMA(a[v], b, s[r][v]);                                                         \
			}                                                                                                \
		}                                                                                                    \
		memcpy(y, s, sizeof s);                                                                              \
	}

#define UNROLL _Pragma("GCC unroll 8")
#define TILE8(UNITS, ROWS)                                                                                   \
	TARGET8 static void NAME(int8_##UNITS##x##ROWS)(const void *of, int64_t in, const void *row, float *y) { \
		enum { VECTORS = UNITS * UNIT / WIDTH8 };                                                            \
		const int32_t *w = of;                                                                               \
		int64_t apart = blocks(in), more = 0;                                                                \
		for (const rounded *x = row; in > 0; x++, in -= BLOCK, more = 1) {                                   \
			int quads = (in < BLOCK ? in : BLOCK) / QUAD;                                                    \
			I8 s[ROWS][VECTORS];                                                                             \
			UNROLL for (int r = 0; r < ROWS; r++)                                                            \
				UNROLL for (int v = 0; v < VECTORS; v++)                                                     \
					s[r][v] = START8(x[r * apart].start);                                                    \
			for (int k = 0; k < quads; k++, w += PANEL) {                                                    \
				AHEAD_OF(w)                                                                                  \
				I8 a[VECTORS];                                                                               \
				UNROLL for (int v = 0; v < VECTORS; v++)                                                     \
					a[v] = LOAD8(w + v * WIDTH8);                                                            \
				UNROLL for (int r = 0; r < ROWS; r++) {                                                      \
					I8 b = SPLAT8(x[r * apart].x[k]);                                                        \
					UNROLL for (int v = 0; v < VECTORS; v++)                                                 \
						s[r][v] = DOT8(s[r][v], a[v], b);                                                    \
				}                                                                                            \
			}                                                                                                \
			UNROLL for (int r = 0; r < ROWS; r++)                                                            \
				UNROLL for (int v = 0; v < VECTORS; v++)                                                     \
					ADD8(y + (r * VECTORS + v) * WIDTH8, s[r][v], x[r * apart].scale, more);                 \
		}                                                                                                    \
	}

#define TILES(KIND, TYPE, UNITS)                                                                               \
	KIND(UNITS, 1)                                                                                             \
	KIND(UNITS, 2)                                                                                             \
	KIND(UNITS, 3)                                                                                             \
	KIND(UNITS, 4)                                                                                             \
	KIND(UNITS, 5)                                                                                             \
	KIND(UNITS, 6)                                                                                             \
	KIND(UNITS, 7)                                                                                             \
	KIND(UNITS, 8)                                                                                             \
	static tile *const NAME(TYPE##_##UNITS)[] = {                                                              \
		NAME(TYPE##_##UNITS##x1), NAME(TYPE##_##UNITS##x2), NAME(TYPE##_##UNITS##x3), NAME(TYPE##_##UNITS##x4), \
		NAME(TYPE##_##UNITS##x5), NAME(TYPE##_##UNITS##x6), NAME(TYPE##_##UNITS##x7), NAME(TYPE##_##UNITS##x8)};

TILES(TILE, bf16, 1)
TILES(TILE, bf16, 2)
TILES(TILE, bf16, 4)
TILES(TILE8, int8, 1)
TILES(TILE8, int8, 2)
TILES(TILE8, int8, 4)

#undef TILE
#undef TILE8
#undef TILES
#undef AHEAD_OF
#undef NAME
#undef TARGET
#undef V
#undef WIDTH
#undef WIDE
#undef SPLAT
#undef FMA
#undef TARGET8
#undef I8
#undef WIDTH8
#undef LOAD8
#undef SPLAT8
#undef START8
#undef DOT8
#undef ADD8
#undef UNROLL
