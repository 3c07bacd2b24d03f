package imagefile

// Constants of the inverse DCT in 13 bits after the point, as in libjpeg, jidctint.c.
const (
	fix0298 = 2446  // 0.298631336
	fix0390 = 3196  // 0.390180644
	fix0541 = 4433  // 0.541196100
	fix0765 = 6270  // 0.765366865
	fix0899 = 7373  // 0.899976223
	fix1175 = 9633  // 1.175875602
	fix1501 = 12299 // 1.501321110
	fix1847 = 15137 // 1.847759065
	fix1961 = 16069 // 1.961570560
	fix2053 = 16819 // 2.053119869
	fix2562 = 20995 // 2.562915447
	fix3072 = 25172 // 3.072711026
)

// inverseDCT writes the 8 by 8 samples of a block with the integers and the rounding of
// libjpeg's default method ("islow"), after C. Loeffler, A. Ligtenberg and G. Moschytz,
// "Practical Fast 1-D DCT Algorithms with 11 Multiplications", 1989: columns first, to 2 bits
// after the point, then rows. Coefficients and quant are in natural order.
func inverseDCT(dst []byte, stride int, coef *[64]int16, quant *[64]int32) {
	var work [64]int32
	for x := range 8 {
		c, q := coef[x:57+x], quant[x:57+x]
		if c[8]|c[16]|c[24]|c[32]|c[40]|c[48]|c[56] == 0 {
			dc := int32(c[0]) * q[0] << 2
			for y := 0; y < 64; y += 8 {
				work[x+y] = dc
			}
			continue
		}
		out := transform([8]int32{
			int32(c[0]) * q[0], int32(c[8]) * q[8], int32(c[16]) * q[16], int32(c[24]) * q[24],
			int32(c[32]) * q[32], int32(c[40]) * q[40], int32(c[48]) * q[48], int32(c[56]) * q[56],
		})
		for y, v := range out {
			work[x+8*y] = (v + 1<<10) >> 11
		}
	}
	for y := range 8 {
		out, w := dst[y*stride:][:8:8], work[8*y:8*y+8]
		if w[1]|w[2]|w[3]|w[4]|w[5]|w[6]|w[7] == 0 {
			v := sample((w[0] + 1<<4) >> 5)
			for x := range out {
				out[x] = v
			}
			continue
		}
		for x, v := range transform([8]int32(w)) {
			out[x] = sample((v + 1<<17) >> 18)
		}
	}
}

// sample adds the middle of the range and limits the result to it.
func sample(v int32) byte {
	if v += 128; uint32(v) > 255 {
		v = ^(v >> 31)
	}
	return byte(v)
}

// transform is the inverse DCT of 8 values, with 13 more bits after the point.
func transform(in [8]int32) [8]int32 {
	z := (in[2] + in[6]) * fix0541
	t2, t3 := z-in[6]*fix1847, z+in[2]*fix0765
	t0, t1 := (in[0]+in[4])<<13, (in[0]-in[4])<<13
	e0, e1, e2, e3 := t0+t3, t1+t2, t1-t2, t0-t3

	z1, z2, z3, z4 := in[7]+in[1], in[5]+in[3], in[7]+in[3], in[5]+in[1]
	z5 := (z3 + z4) * fix1175
	z1, z2, z3, z4 = -z1*fix0899, -z2*fix2562, z5-z3*fix1961, z5-z4*fix0390
	o0, o1, o2, o3 := in[1]*fix1501+z1+z4, in[3]*fix3072+z2+z3, in[5]*fix2053+z2+z4, in[7]*fix0298+z1+z3
	return [8]int32{e0 + o0, e1 + o1, e2 + o2, e3 + o3, e3 - o3, e2 - o2, e1 - o1, e0 - o0}
}
