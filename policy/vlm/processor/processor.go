package processor

import (
	"fmt"
	"image"
	"slices"
	"sync"
)

// Processor converts images to patches. It is safe for concurrent use.
type Processor struct {
	cfg   Config
	table [3][256]float32 // normalised value of each byte, per channel
	pool  sync.Pool       // of *work
}

// work holds the buffers for processing one image.
type work struct {
	rgb, across, down []byte
	kx, ky            *weights
}

// New returns a processor; the error wraps ErrConfig.
func New(c Config) (*Processor, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	p := &Processor{cfg: c, pool: sync.Pool{New: func() any { return new(work) }}}
	for ch := range 3 {
		for v := range 256 {
			p.table[ch][v] = float32((float64(v)*c.Rescale - c.Mean[ch]) / c.Std[ch])
		}
	}
	return p, nil
}

// Load is New with the settings of a model folder; see [LoadConfig].
func Load(dir string) (*Processor, error) {
	c, err := LoadConfig(dir)
	if err != nil {
		return nil, err
	}
	return New(c)
}

// Config returns the settings.
func (p *Processor) Config() Config { return p.cfg }

// Save writes the settings into a model folder; see [Config.Save].
func (p *Processor) Save(dir string) error { return p.cfg.Save(dir) }

// Grid counts an image's patches over time, height and width.
type Grid struct{ T, H, W int }

// Patches returns the number of patches.
func (g Grid) Patches() int { return g.T * g.H * g.W }

// Grid returns the patch grid for an image of this size. It returns an error that
// wraps ErrImage if the image has more than 2²⁸ pixels before or after resizing, or
// if [SmartSize] rejects it.
func (p *Processor) Grid(width, height int) (Grid, error) {
	h, w, err := SmartSize(height, width, p.cfg.factor(), p.cfg.MinPixels, p.cfg.MaxPixels)
	if err == nil && width*height > maxPixels {
		err = fmt.Errorf("processor: %w: %d by %d pixels, more than %d in all", ErrImage, width, height, maxPixels)
	}
	if err == nil && h*w > maxPixels {
		err = fmt.Errorf("processor: %w: %d by %d pixels become %d by %d, more than %d pixels", ErrImage, width, height, w, h,
			maxPixels)
	}
	if err != nil {
		return Grid{}, err
	}
	return Grid{1, h / p.cfg.PatchSize, w / p.cfg.PatchSize}, nil
}

// Tokens returns the number of tokens an image takes in the text: M×M patches
// are merged into one.
func (p *Processor) Tokens(g Grid) int {
	if p.cfg.MergeSize == 0 { // of a zero value
		return 0
	}
	return g.Patches() / (p.cfg.MergeSize * p.cfg.MergeSize)
}

// Dim returns the length of a normalised row, 3·T·P·P.
func (p *Processor) Dim() int { return p.cfg.TemporalPatchSize * p.PixDim() }

// PixDim returns the length of a row of bytes, 3·P·P.
func (p *Processor) PixDim() int { return 3 * p.cfg.PatchSize * p.cfg.PatchSize }

// Patches are those of one image as bytes: Grid.Patches() rows of PixDim values,
// within a row by channel, y, x.
type Patches struct {
	Grid Grid
	Pix  []byte
}

// Patches resizes img and cuts it into dst, whose buffer is reused when it is
// large enough. An error wraps ErrImage.
func (p *Processor) Patches(dst *Patches, img image.Image) error {
	return p.resized(img, func(small []byte, grid Grid) {
		dst.Grid = grid
		dst.Pix = grow(dst.Pix, grid.Patches()*p.PixDim())
		p.cut(dst.Pix, small, grid)
	})
}

// Resized returns img as the model sees it: opaque, in the size of its grid, with the
// pixels of Patches. Processing the result again changes nothing. An error wraps ErrImage.
func (p *Processor) Resized(img image.Image) (out *image.NRGBA, grid Grid, err error) {
	err = p.resized(img, func(small []byte, g Grid) {
		grid = g
		out = image.NewNRGBA(image.Rect(0, 0, grid.W*p.cfg.PatchSize, grid.H*p.cfg.PatchSize))
		for i := range len(small) / 3 {
			copy(out.Pix[4*i:], small[3*i:3*i+3])
			out.Pix[4*i+3] = 255
		}
	})
	return out, grid, err
}

// resized calls f with the image in its grid's size as interleaved RGB.
func (p *Processor) resized(img image.Image, f func(small []byte, grid Grid)) (err error) {
	defer recoverImage(&err)
	if img == nil {
		return fmt.Errorf("processor: %w: image is nil", ErrImage)
	}
	b := img.Bounds()
	grid, err := p.Grid(b.Dx(), b.Dy())
	if err != nil {
		return err
	}
	s := p.pool.Get().(*work)
	defer p.pool.Put(s)
	s.rgb = grow(s.rgb, 3*b.Dx()*b.Dy())
	rgb(s.rgb, img)
	f(s.resize(s.rgb, b.Dx(), b.Dy(), grid.W*p.cfg.PatchSize, grid.H*p.cfg.PatchSize), grid)
	return nil
}

// cut copies pixels into patch order.
func (p *Processor) cut(dst, src []byte, grid Grid) {
	size, merge := p.cfg.PatchSize, p.cfg.MergeSize
	stride := grid.W * size * 3
	plane := size * size
	for by := 0; by < grid.H; by += merge {
		for bx := 0; bx < grid.W; bx += merge {
			for y := by; y < by+merge; y++ {
				for x := bx; x < bx+merge; x++ {
					row := dst[:3*plane]
					dst = dst[3*plane:]
					for i := range size {
						line := src[(y*size+i)*stride+x*size*3:][:3*size]
						r, g, b := row[i*size:][:size], row[plane+i*size:][:size], row[2*plane+i*size:][:size]
						for j := range size {
							r[j], g[j], b[j] = line[3*j], line[3*j+1], line[3*j+2]
						}
					}
				}
			}
		}
	}
}

// Normalize appends to dst the float32 rows of the patches in pix, [rows, Dim],
// equal to transformers' pixel_values: scaled, normalised, and each channel repeated
// for every frame of a patch. pix holds whole rows of one or several images, as
// returned by Patches; an incomplete last row is ignored.
func (p *Processor) Normalize(dst []float32, pix []byte) []float32 {
	plane := p.cfg.PatchSize * p.cfg.PatchSize
	if plane == 0 { // of a zero value
		return dst
	}
	n := len(pix) / p.PixDim()
	at := len(dst)
	dst = slices.Grow(dst, n*p.Dim())[:at+n*p.Dim()]
	out := dst[at:]
	for range n {
		for ch := range 3 {
			first := out[:plane]
			table := &p.table[ch]
			for i, v := range pix[:plane] {
				first[i] = table[v]
			}
			pix, out = pix[plane:], out[plane:]
			for range p.cfg.TemporalPatchSize - 1 {
				copy(out[:plane], first)
				out = out[plane:]
			}
		}
	}
	return dst
}
