package generate

import (
	"fmt"
	"image"
	"runtime"
	"sync"

	"vagen/policy"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/processor"
)

// pictureCache keeps processed images between generation and training. It has two
// generations of at most limit bytes each. Used images move to the new one. The old one is
// dropped when a new round of conversations begins, generated or encoded, or when the new one is
// full. So the images of a step are dropped during the generation of the step after the next.
type pictureCache struct {
	mu       sync.Mutex
	limit    int
	Size     int // bytes in fresh
	OldSize  int // bytes in old
	Seen     int // bytes of the round's new pictures
	Fresh    map[[32]byte]net.Picture
	Old      map[[32]byte]net.Picture
	learning bool // there has been a training step in this round
	// generated: responses were generated since the last training step.
	generated bool
}

// Limits on the bytes of processed images: for a policy that only generates, which does not
// need them again, and for one that is trained.
const (
	PlayedPictures  = 64 << 20
	LearnedPictures = 512 << 20
)

func NewPictureCache(limit int) *pictureCache {
	return &pictureCache{limit: limit, Fresh: map[[32]byte]net.Picture{}}
}

func (c *pictureCache) get(hash [32]byte) (net.Picture, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.Fresh[hash]
	if ok {
		return p, true
	}
	if p, ok = c.Old[hash]; ok {
		c.store(hash, p)
	}
	return p, ok
}

func (c *pictureCache) Put(hash [32]byte, p net.Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.Fresh[hash]; !ok {
		c.Seen += len(p.Pixels)
		c.store(hash, p)
	}
}

// Growth is the number of bytes by which the cache grows in training, which keeps two
// rounds, if further rounds have as many images as this one.
func (c *pictureCache) Growth() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(max(0, min(2*c.Seen, LearnedPictures)-c.Size-c.OldSize))
}

func (c *pictureCache) store(hash [32]byte, p net.Picture) {
	if c.Size > 0 && c.Size+len(p.Pixels) > c.limit/2 {
		c.rotate()
	}
	c.Fresh[hash] = p
	c.Size += len(p.Pixels)
}

func (c *pictureCache) rotate() {
	c.Old, c.OldSize, c.Fresh, c.Size = c.Fresh, c.Size, map[[32]byte]net.Picture{}, 0
}

// MarkTraining records a training step. It reports whether it is the first one since responses
// were generated.
func (c *pictureCache) MarkTraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.generated
	c.learning, c.limit, c.generated = true, LearnedPictures, false
	return first
}

// startRound records that conversations begin, to generate responses or to encode given ones. It
// starts a new round, and reports so, if there was a training step in the current one.
func (c *pictureCache) startRound(generate bool) bool {
	if c == nil { // no image is read
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generated = c.generated || generate
	if !c.learning {
		return false
	}
	c.rotate()
	c.learning, c.Seen = false, 0
	return true
}

// hash sets an image's hash after it has checked that the size is valid. Hashing copies the
// pixels. A panic of the image's methods becomes an error: it may be a nil pointer or have too few pixels.
func (x *Encoder) hash(im *policy.Image) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("image cannot be read: %v", r)
		}
	}()
	b := im.Image.Bounds()
	if x.proc == nil {
		return x.noVision()
	}
	if _, err := x.proc.Grid(b.Dx(), b.Dy()); err != nil {
		return err
	}
	im.Hash = policy.HashImage(im.Image)
	return nil
}

func (x *Encoder) noVision() error { return fmt.Errorf("%s has no vision tower", x.Cfg.Family) }

// Picture returns a processed image, from the cache if possible.
func (x *Encoder) Picture(im policy.Image) (net.Picture, error) {
	if p, ok := x.Pictures.get(im.Hash); ok {
		return p, nil
	}
	if x.proc == nil {
		return net.Picture{}, x.noVision()
	}
	if im.Image == nil {
		return net.Picture{}, fmt.Errorf("image %x is missing", im.Hash[:4])
	}
	var patches processor.Patches
	if err := x.proc.Patches(&patches, im.Image); err != nil {
		return net.Picture{}, err
	}
	p := net.Picture{Grid: net.Grid{H: patches.Grid.H, W: patches.Grid.W}, Pixels: patches.Pix}
	x.Pictures.Put(im.Hash, p)
	return p, nil
}

// PrepareImages hashes and processes the images of several prompts in parallel. The result does
// not depend on the number of workers. There is one error, or nil, per prompt.
func (x *Encoder) PrepareImages(groups [][]image.Image) ([][]policy.Image, [][]net.Picture, []error) {
	refs, pics := make([][]policy.Image, len(groups)), make([][]net.Picture, len(groups))
	errs := make([]error, len(groups))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(groups)) {
		wg.Go(func() {
			for i := range work {
				for k, im := range groups[i] {
					if im == nil {
						errs[i] = fmt.Errorf("vlm: image %d is nil", k)
						break
					}
					ref := policy.Image{Image: im}
					var pic net.Picture
					err := x.hash(&ref)
					if err == nil {
						pic, err = x.Picture(ref)
					}
					if err != nil {
						errs[i] = fmt.Errorf("vlm: %w: image %d: %w", policy.ErrMessages, k, err)
						break
					}
					refs[i], pics[i] = append(refs[i], ref), append(pics[i], pic)
				}
			}
		})
	}
	for i := range groups {
		work <- i
	}
	close(work)
	wg.Wait()
	return refs, pics, errs
}
