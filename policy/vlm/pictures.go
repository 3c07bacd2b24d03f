package vlm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"runtime"
	"sync"

	"vagen/policy"
	"vagen/policy/vlm/processor"
)

// pictureCache keeps processed images between generation and training. It has two
// halves: what is asked for moves to the new one, and the old one goes when another
// round of conversations begins, or when the new one is full. What a step played
// is so dropped while the next but one is played, and never takes more than limit
// bytes.
type pictureCache struct {
	mu       sync.Mutex
	limit    int
	size     int // bytes in fresh
	oldSize  int // bytes in old
	seen     int // bytes of all pictures so far
	fresh    map[[32]byte]picture
	old      map[[32]byte]picture
	learning bool // there has been a training step in this round
}

// Most bytes of processed images: those of a policy that only plays, which are of
// no use once they have been read, and those of one that learns.
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
		c.keep(hash, p)
	}
	return p, ok
}

func (c *pictureCache) put(hash [32]byte, p picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.fresh[hash]; !ok {
		c.seen += len(p.pixels)
		c.keep(hash, p)
	}
}

// growth is by how many bytes the cache grows in training, which keeps two rounds,
// if the pictures so far come back or as many others do.
func (c *pictureCache) growth() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(max(0, min(2*c.seen, learnedPictures)-c.size-c.oldSize))
}

func (c *pictureCache) keep(hash [32]byte, p picture) {
	if c.size > 0 && c.size+len(p.pixels) > c.limit/2 {
		c.turn()
	}
	c.fresh[hash] = p
	c.size += len(p.pixels)
}

func (c *pictureCache) turn() {
	c.old, c.oldSize, c.fresh, c.size = c.fresh, c.size, map[[32]byte]picture{}, 0
}

// learned notes a training step.
func (c *pictureCache) learned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learning, c.limit = true, learnedPictures
}

// played notes that conversations begin: a round does if something has been learned
// from the one before.
func (c *pictureCache) played() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.learning {
		c.turn()
		c.learning = false
	}
}

// guarded calls f, in which a caller's image is read, and turns a panic of the
// image's methods into an error: a nil pointer in an image.Image, or a picture
// whose pixels are not all there.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	return f()
}

// hashImage is SHA-256 of an image's size and its 8-bit RGBA pixels.
func hashImage(im image.Image) [32]byte {
	b := im.Bounds()
	rgba, ok := im.(*image.RGBA)
	if !ok || rgba.Stride != 4*b.Dx() {
		rgba = image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
		draw.Draw(rgba, rgba.Bounds(), im, b.Min, draw.Src)
	}
	h := sha256.New()
	var size [16]byte
	binary.LittleEndian.PutUint64(size[:], uint64(b.Dx()))
	binary.LittleEndian.PutUint64(size[8:], uint64(b.Dy()))
	h.Write(size[:])
	h.Write(rgba.Pix[:4*b.Dx()*b.Dy()])
	return [32]byte(h.Sum(nil))
}

// hash sets an image's hash, for which its pixels are copied, once its size has
// been found to be one that can be read.
func (m *Model) hash(im *policy.Image) error {
	b := im.Image.Bounds()
	if m.proc == nil {
		return m.noVision()
	}
	if _, err := m.proc.Grid(b.Dx(), b.Dy()); err != nil {
		return err
	}
	im.Hash = hashImage(im.Image)
	return nil
}

func (m *Model) noVision() error { return fmt.Errorf("%s has no vision tower", m.cfg.Family) }

// picture returns a processed image, from the cache where it is there.
func (m *Model) picture(im policy.Image) (picture, error) {
	if p, ok := m.pictures.get(im.Hash); ok {
		return p, nil
	}
	if m.proc == nil {
		return picture{}, m.noVision()
	}
	if im.Image == nil {
		return picture{}, fmt.Errorf("image %x is not there", im.Hash[:4])
	}
	var patches processor.Patches
	if err := guarded(func() error { return m.proc.Patches(&patches, im.Image) }); err != nil {
		return picture{}, err
	}
	p := picture{grid: grid{patches.Grid.H, patches.Grid.W}, pixels: patches.Pix}
	m.pictures.put(im.Hash, p)
	return p, nil
}

// prepare hashes and processes the images of several prompts side by side. The
// result does not depend on how many workers there are. There is one error, or
// nil, per prompt.
func (m *Model) prepare(groups [][]image.Image) ([][]policy.Image, [][]picture, []error) {
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
					err := guarded(func() error { return m.hash(&ref) })
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
