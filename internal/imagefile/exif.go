package imagefile

import (
	"encoding/binary"
	"image"
)

// orientation returns the orientation that EXIF data name, 1 to 8; 1 if they name none.
func orientation(exif []byte) int {
	if len(exif) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(exif[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(exif[4:]))
	if at+2 > int64(len(exif)) {
		return 1
	}
	entries := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(entries) < 12 {
			break
		}
		const tag, short = 0x112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short && order.Uint32(entries[4:]) == 1 {
			if o := int(order.Uint16(entries[8:])); 1 <= o && o <= 8 {
				return o
			}
			break
		}
		entries = entries[12:]
	}
	return 1
}

// pngExif returns the EXIF data of a PNG, nil if it has none.
func pngExif(raw []byte) []byte {
	for at := 8; at+8 <= len(raw); {
		n := int(binary.BigEndian.Uint32(raw[at:]))
		if n < 0 || n > len(raw)-at-8 { // negative where int has 32 bits
			break
		}
		if string(raw[at+4:at+8]) == "eXIf" {
			return raw[at+8:][:n]
		}
		at += n + 12 // with length, type and checksum
	}
	return nil
}

// turned returns an image as its orientation says that it is to be shown.
func turned(im image.Image, orientation int) image.Image {
	if orientation == 1 {
		return im
	}
	b := im.Bounds()
	to := image.Rect(0, 0, b.Dx(), b.Dy())
	if orientation > 4 {
		to.Max = image.Pt(b.Dy(), b.Dx())
	}
	switch m := im.(type) {
	case *image.Gray:
		out := image.NewGray(to)
		turn(out.Pix, m.Pix, m.Stride, 1, to, orientation)
		return out
	case *image.Paletted:
		out := image.NewPaletted(to, m.Palette)
		turn(out.Pix, m.Pix, m.Stride, 1, to, orientation)
		return out
	case *image.Gray16:
		out := image.NewGray16(to)
		turn(out.Pix, m.Pix, m.Stride, 2, to, orientation)
		return out
	case *image.RGBA:
		out := image.NewRGBA(to)
		turn(out.Pix, m.Pix, m.Stride, 4, to, orientation)
		return out
	case *image.NRGBA:
		out := image.NewNRGBA(to)
		turn(out.Pix, m.Pix, m.Stride, 4, to, orientation)
		return out
	case *image.RGBA64:
		out := image.NewRGBA64(to)
		turn(out.Pix, m.Pix, m.Stride, 8, to, orientation)
		return out
	case *image.NRGBA64:
		out := image.NewNRGBA64(to)
		turn(out.Pix, m.Pix, m.Stride, 8, to, orientation)
		return out
	}
	return im // image/png returns no other type
}

// turn copies pixels of size bytes to an image of the given bounds: orientations 2 to 4 mirror
// columns, both, or rows; 5 to 8 exchange columns and rows first.
func turn(dst, src []byte, stride, size int, to image.Rectangle, orientation int) {
	width, height := to.Dx(), to.Dy()
	right, down := size, stride // steps in src
	if orientation > 4 {
		right, down = down, right
	}
	start := 0
	if o := orientation; o == 2 || o == 3 || o == 6 || o == 7 { // from right to left
		start, right = start+(width-1)*right, -right
	}
	if o := orientation; o == 3 || o == 4 || o == 7 || o == 8 { // from bottom to top
		start, down = start+(height-1)*down, -down
	}
	for y := range height {
		at := start + y*down
		for range width {
			copy(dst[:size], src[at:at+size])
			dst, at = dst[size:], at+right
		}
	}
}
