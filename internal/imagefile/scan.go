package imagefile

import (
	"errors"
	"fmt"
	"slices"
)

// natural maps positions in the zigzag order of a JPEG's coefficients to row·8 + column. As in
// libjpeg, positions after the end, which only damaged data have, are the last one.
var natural = [64 + 16]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
	63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
}

// component is a colour component of a JPEG.
type component struct {
	id         byte
	h, v       int // sampling factors
	table      int // of quantisation
	quant      *[64]int32
	wide, high int // blocks, in whole units of an interleaved scan
	pix        []byte
	coef       [][64]int16 // of a progressive image, until its end

	dc, ac *huffman // of the current scan
	last   int      // DC value of the last block
}

// scan is a pass over the data of one or more components.
type scan struct {
	bitReader
	components  []*component
	progressive bool
	from, to    int // positions of coefficients in zigzag order
	high, low   int // the bit that the scan refines, plus 1, or 0; the lowest bit that it gives
	run         int // blocks that have no more coefficients in this scan
}

// readScan reads the header of a scan and its data.
func (d *decoder) readScan(body []byte, at int) (end int, err error) {
	n := 0
	if len(body) > 0 {
		n = int(body[0])
	}
	if n < 1 || n > len(d.components) || len(body) != 4+2*n {
		return at, errors.New("bad header of a scan")
	}
	s := &scan{bitReader: bitReader{data: d.raw, at: at}, progressive: d.progressive, to: 63}
	for i := range n {
		c := d.component(body[1+2*i])
		if c == nil || slices.Contains(s.components, c) {
			return at, fmt.Errorf("a scan has the unknown or repeated component %d", body[1+2*i])
		}
		dc, ac := body[2+2*i]>>4, body[2+2*i]&15
		if dc > 3 || ac > 3 {
			return at, errTable
		}
		if c.quant == nil { // the first scan of a component decides
			c.quant = d.quant[c.table]
		}
		c.dc, c.ac, c.last = d.dc[dc], d.ac[ac], 0
		s.components = append(s.components, c)
	}
	if s.progressive {
		s.from, s.to = int(body[1+2*n]), int(body[2+2*n])
		s.high, s.low = int(body[3+2*n]>>4), int(body[3+2*n]&15)
	}
	if err := s.check(); err != nil {
		return at, err
	}
	if d.scans == 1 {
		d.alloc()
	}
	s.read(d)
	return s.at, s.err
}

// check checks that the scan has the tables that it needs, and a valid range of coefficients.
func (s *scan) check() error {
	if s.progressive &&
		(s.from > s.to || s.to > 63 || s.from == 0 && s.to != 0 || s.from > 0 && len(s.components) > 1 ||
			s.low > 13 || s.high != 0 && s.high != s.low+1) {
		return fmt.Errorf("a scan has coefficients %d to %d, bits %d to %d", s.from, s.to, s.high, s.low)
	}
	blocks := 0
	for _, c := range s.components {
		blocks += c.h * c.v
		if c.quant == nil || s.from == 0 && s.high == 0 && c.dc == nil || s.to > 0 && c.ac == nil {
			return errors.New("a scan has no table of quantisation, or of Huffman codes")
		}
	}
	if len(s.components) > 1 && blocks > 10 {
		return errors.New("a scan has more than 10 blocks in a unit")
	}
	return nil
}

// read reads the blocks: unit by unit, or, of a single component, row by row.
func (s *scan) read(d *decoder) {
	across, down := ceil(d.width, 8*d.h), ceil(d.height, 8*d.v)
	single := len(s.components) == 1
	if single {
		c := s.components[0]
		across, down = ceil(ceil(d.width*c.h, d.h), 8), ceil(ceil(d.height*c.v, d.v), 8)
	}
	for i := range across * down {
		if d.restart > 0 && i > 0 && i%d.restart == 0 {
			s.restart(i/d.restart - 1)
			s.run = 0
			for _, c := range s.components {
				c.last = 0
			}
		}
		x, y := i%across, i/across
		for _, c := range s.components {
			if single {
				s.block(c, x, y)
				continue
			}
			for k := range c.h * c.v {
				s.block(c, x*c.h+k%c.h, y*c.v+k/c.h)
			}
		}
		if s.err != nil {
			return
		}
	}
}

// block reads a block.
func (s *scan) block(c *component, x, y int) {
	switch {
	case !s.progressive:
		var coef [64]int16
		s.baseline(c, &coef)
		inverseDCT(c.pix[8*(y*8*c.wide+x):], 8*c.wide, &coef, c.quant)
	case s.from == 0 && s.high == 0:
		c.last += s.signed(s.symbol(c.dc) & 15)
		c.coef[y*c.wide+x][0] = int16(c.last << s.low)
	case s.from == 0:
		c.coef[y*c.wide+x][0] |= int16(s.bits(1) << s.low)
	case s.high == 0:
		s.begin(c.ac, &c.coef[y*c.wide+x])
	default:
		s.refine(c.ac, &c.coef[y*c.wide+x])
	}
}

// baseline reads all coefficients of a block.
func (s *scan) baseline(c *component, coef *[64]int16) {
	c.last += s.signed(s.symbol(c.dc) & 15)
	coef[0] = int16(c.last)
	for k := 1; k < 64; k++ {
		symbol := s.symbol(c.ac)
		skip, size := symbol>>4, symbol&15
		if size == 0 {
			if skip != 15 {
				return
			}
			k += 15
			continue
		}
		k += skip
		coef[natural[k]] = int16(s.signed(size))
	}
}

// begin reads the first bits of a range of coefficients.
func (s *scan) begin(ac *huffman, coef *[64]int16) {
	if s.run > 0 {
		s.run--
		return
	}
	for k := s.from; k <= s.to; k++ {
		symbol := s.symbol(ac)
		skip, size := symbol>>4, symbol&15
		if size == 0 {
			if skip != 15 {
				s.run = 1<<skip - 1 + s.bits(skip)
				return
			}
			k += 15
			continue
		}
		k += skip
		coef[natural[k]] = int16(s.signed(size) << s.low)
	}
}

// refine reads one more bit of each coefficient of a range that is not 0, and the first bit of
// others.
func (s *scan) refine(ac *huffman, coef *[64]int16) {
	k := s.from
	for s.run == 0 && k <= s.to {
		symbol := s.symbol(ac)
		skip, value := symbol>>4, int16(0)
		switch size := symbol & 15; {
		case size == 0 && skip != 15:
			s.run = 1<<skip + s.bits(skip)
			continue
		case size > 1:
			s.fail(errCode)
			return
		case size == 1:
			value = int16(1) << s.low
			if s.bits(1) == 0 {
				value = -value
			}
		}
		k = s.refineNonZero(coef, k, skip)
		if k <= s.to && value != 0 {
			coef[natural[k]] = value
		}
		if k++; s.err != nil {
			return
		}
	}
	if s.run > 0 {
		s.refineNonZero(coef, k, 64)
		s.run--
	}
}

// refineNonZero refines coefficients from position k on, and returns the position after skip of
// them that are 0, of the next one that is 0.
func (s *scan) refineNonZero(coef *[64]int16, k, skip int) int {
	for ; k <= s.to; k++ {
		c := &coef[natural[k]]
		if *c == 0 {
			if skip == 0 {
				break
			}
			skip--
			continue
		}
		if bit := int16(1) << s.low; s.bits(1) == 1 && *c&bit == 0 {
			if *c > 0 {
				*c += bit
			} else {
				*c -= bit
			}
		}
	}
	return k
}
