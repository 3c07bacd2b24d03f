package termimage

import (
	"bytes"
	"fmt"
	"image"
	"strconv"
)

// levels per colour channel: 216 of the 256 colours that all terminals have.
const levels = 6

// sixel writes an image in bands of six rows. Each character shows one column of a
// band in one colour (DEC STD 070, chapter 9).
func sixel(out *bytes.Buffer, m image.Image) {
	box := m.Bounds()
	fmt.Fprintf(out, "\x1bPq\"1;1;%d;%d", box.Dx(), box.Dy())
	for i := range levels * levels * levels {
		const step = 100 / (levels - 1)
		fmt.Fprintf(out, "#%d;2;%d;%d;%d", i, i/36*step, i/6%6*step, i%6*step)
	}
	for top := box.Min.Y; top < box.Max.Y; top += 6 {
		band(out, m, top)
	}
	out.WriteString("\x1b\\\n")
}

// band writes six rows, one colour after the other.
func band(out *bytes.Buffer, m image.Image, top int) {
	box := m.Bounds()
	var used [levels * levels * levels][]byte // bits of each column, by colour
	for x := range box.Dx() {
		for y := range min(6, box.Max.Y-top) {
			c := colour(m, box.Min.X+x, top+y)
			if used[c] == nil {
				used[c] = make([]byte, box.Dx())
			}
			used[c][x] |= 1 << y
		}
	}
	for c, columns := range used {
		if columns == nil {
			continue
		}
		fmt.Fprintf(out, "#%d", c)
		for i := 0; i < len(columns); {
			n := 1
			for i+n < len(columns) && columns[i+n] == columns[i] {
				n++
			}
			if n > 3 {
				out.WriteString("!" + strconv.Itoa(n))
				out.WriteByte('?' + columns[i])
			} else {
				out.Write(bytes.Repeat([]byte{'?' + columns[i]}, n))
			}
			i += n
		}
		out.WriteByte('$') // back to the left
	}
	out.WriteByte('-')
}

// colour returns the nearest of the 216 colours. Transparent pixels are drawn on black.
func colour(m image.Image, x, y int) int {
	r, g, b, _ := m.At(x, y).RGBA()
	near := func(v uint32) int { return int((v*(levels-1) + 0x7fff) / 0xffff) }
	return near(r)*36 + near(g)*6 + near(b)
}
