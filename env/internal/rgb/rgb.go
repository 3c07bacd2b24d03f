// Package rgb writes opaque colours as hexadecimal digits.
package rgb

import "image/color"

// Of returns a colour, such as 0xffd6b0.
func Of(hex uint32) color.RGBA { return color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 255} }
