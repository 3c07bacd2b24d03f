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

// pictureCache keeps processed images between generation and training, up to a
// number of bytes; the oldest go first.
type pictureCache struct {
	mu    sync.Mutex
	limit int
	size  int
	by    map[[32]byte]picture
	order [][32]byte
}

func newPictureCache(limit int) *pictureCache {
	return &pictureCache{limit: limit, by: map[[32]byte]picture{}}
}

func (c *pictureCache) get(hash [32]byte) (picture, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.by[hash]
	return p, ok
}

func (c *pictureCache) put(hash [32]byte, p picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.by[hash]; ok {
		return
	}
	c.by[hash] = p
	c.order = append(c.order, hash)
	c.size += len(p.pixels)
	for c.size > c.limit && len(c.order) > 1 {
		c.size -= len(c.by[c.order[0]].pixels)
		delete(c.by, c.order[0])
		c.order = c.order[1:]
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

// picture returns a processed image, from the cache where it is there.
func (m *Model) picture(im policy.Image) (picture, error) {
	if p, ok := m.pictures.get(im.Hash); ok {
		return p, nil
	}
	if m.proc == nil {
		return picture{}, fmt.Errorf("%s has no vision tower", m.cfg.Family)
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
					err := guarded(func() error { ref.Hash = hashImage(im); return nil })
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
