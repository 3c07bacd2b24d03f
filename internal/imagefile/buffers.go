package imagefile

import (
	"image/png"
	"sync"
)

// Buffers lets the PNG encoders of consecutive images share their tables, which take almost a megabyte.
var Buffers png.EncoderBufferPool = new(buffers)

// FastPNG encodes quickly: game frames are flat areas of colour, for which that costs few bytes.
var FastPNG = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: Buffers}

type buffers struct{ pool sync.Pool }

func (p *buffers) Get() *png.EncoderBuffer {
	b, _ := p.pool.Get().(*png.EncoderBuffer)
	return b
}

func (p *buffers) Put(b *png.EncoderBuffer) { p.pool.Put(b) }
