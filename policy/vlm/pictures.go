package vlm

import (
	"fmt"
	"image"
	"runtime"
	"sync"

	"vagen/policy"
	"vagen/policy/vlm/processor"
)

// pictureCache keeps processed images between generation and training. It has two
// generations of at most limit bytes each. Used images move to the new one. The old one is
// dropped when a new round of conversations begins, generated or encoded, or when the new one is
// full. So the images of a step are dropped during the generation of the step after the next.
type pictureCache struct {
	mu       sync.Mutex
	limit    int
	size     int // bytes in fresh
	oldSize  int // bytes in old
	seen     int // bytes of the round's new pictures
	fresh    map[[32]byte]picture
	old      map[[32]byte]picture
	learning bool // there has been a training step in this round
}

// Limits on the bytes of processed images: for a policy that only generates, which does not
// need them again, and for one that is trained.
const (
	playedPictures  = 64 << 20
	learnedPictures = 512 << 20
)

func newPictureCache(limit int) *pictureCache {
	return &pictureCache{limit: limit, fresh: map[[32]byte]picture{}}
}

func (c *pictureCache) get(hash [32]byte) (picture, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.fresh[hash]
	if ok {
		return p, true
	}
	if p, ok = c.old[hash]; ok {
		c.store(hash, p)
	}
	return p, ok
}

func (c *pictureCache) put(hash [32]byte, p picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.fresh[hash]; !ok {
		c.seen += len(p.pixels)
		c.store(hash, p)
	}
}

// growth is the number of bytes by which the cache grows in training, which keeps two
// rounds, if further rounds have as many images as this one.
func (c *pictureCache) growth() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(max(0, min(2*c.seen, learnedPictures)-c.size-c.oldSize))
}

func (c *pictureCache) store(hash [32]byte, p picture) {
	if c.size > 0 && c.size+len(p.pixels) > c.limit/2 {
		c.rotate()
	}
	c.fresh[hash] = p
	c.size += len(p.pixels)
}

func (c *pictureCache) rotate() {
	c.old, c.oldSize, c.fresh, c.size = c.fresh, c.size, map[[32]byte]picture{}, 0
}

// markTraining records a training step.
func (c *pictureCache) markTraining() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learning, c.limit = true, learnedPictures
}

// startRound records that conversations begin, or are encoded. It starts a new round if there
// was a training step in the current one.
func (c *pictureCache) startRound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.learning {
		c.rotate()
		c.learning, c.seen = false, 0
	}
}

// recoverImagePanic calls f, which reads a caller's image, and converts a panic of the image's
// methods to an error: the image.Image may be a nil pointer or have too few pixels.
func recoverImagePanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("image cannot be read: %v", r)
		}
	}()
	return f()
}

// hash sets an image's hash after it has checked that the size is valid. Hashing copies the
// pixels.
func (m *Model) hash(im *policy.Image) error {
	b := im.Image.Bounds()
	if m.proc == nil {
		return m.noVision()
	}
	if _, err := m.proc.Grid(b.Dx(), b.Dy()); err != nil {
		return err
	}
	im.Hash = policy.HashImage(im.Image)
	return nil
}

func (m *Model) noVision() error { return fmt.Errorf("%s has no vision tower", m.cfg.Family) }

// picture returns a processed image, from the cache if possible.
func (m *Model) picture(im policy.Image) (picture, error) {
	if p, ok := m.pictures.get(im.Hash); ok {
		return p, nil
	}
	if m.proc == nil {
		return picture{}, m.noVision()
	}
	if im.Image == nil {
		return picture{}, fmt.Errorf("image %x is missing", im.Hash[:4])
	}
	var patches processor.Patches
	if err := recoverImagePanic(func() error { return m.proc.Patches(&patches, im.Image) }); err != nil {
		return picture{}, err
	}
	p := picture{grid: grid{patches.Grid.H, patches.Grid.W}, pixels: patches.Pix}
	m.pictures.put(im.Hash, p)
	return p, nil
}

// prepareImages hashes and processes the images of several prompts in parallel. The result does
// not depend on the number of workers. There is one error, or nil, per prompt.
func (m *Model) prepareImages(groups [][]image.Image) ([][]policy.Image, [][]picture, []error) {
	refs, pics := make([][]policy.Image, len(groups)), make([][]picture, len(groups))
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
					var pic picture
					err := recoverImagePanic(func() error { return m.hash(&ref) })
					if err == nil {
						pic, err = m.picture(ref)
					}
					if err != nil {
						errs[i] = fmt.Errorf("vlm: image %d: %w", k, err)
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
