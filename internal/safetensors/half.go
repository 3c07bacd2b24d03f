package safetensors

import "math"

// toHalf rounds to the nearest binary16, ties to even. Values from 65520 on
// become infinite; NaN stays a NaN.
func toHalf(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits>>16) & 0x8000
	switch abs := bits & 0x7fffffff; {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000: // 65520, halfway past the largest finite value
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14; 1024 here is the first normal number
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	default:
		abs += 0xfff + abs>>13&1
		return sign | uint16((abs-(127-15)<<23)>>13)
	}
}

// toBFloat16 rounds to the nearest bfloat16, ties to even; NaN stays a NaN.
func toBFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
