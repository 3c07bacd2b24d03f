package store

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/rollout"
)

// Gallery is a folder of trajectory files that share one folder of images. It is not
// safe for concurrent use.
//
// Whether an image is stored depends only on the images before it, so a run that was
// stopped and resumed leaves the same folder as one that was not stopped.
type Gallery struct {
	dir     string
	o       GalleryOptions
	images  *folder
	omitted int
}

// GalleryOptions define which images are stored, and how. The zero value stores all
// of them with the default compression of image/png.
type GalleryOptions struct {
	// NamesOnly stores no images; files hold only their names.
	NamesOnly bool
	Level     png.CompressionLevel
	// Quota limits the bytes of images in the folder; images that do not fit are not
	// stored. 0 is no limit.
	Quota int64
	// Log receives one warning about images that are not stored; nil discards it.
	Log *slog.Logger
}

// OpenGallery creates the folder if it does not exist, and removes temporary files
// that a killed process left in it.
func OpenGallery(dir string, o GalleryOptions) (*Gallery, error) {
	o.Log = silent.Log(o.Log)
	images := newFolder(filepath.Join(dir, "any"))
	g := &Gallery{dir: dir, o: o, images: images}
	images.gallery = g
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := sweep(images.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	// Report a folder that cannot be written to now, not after a training step.
	probe, err := os.CreateTemp(dir, ".probe-*.tmp")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err == nil {
		images.bytes, err = pictureBytes(images.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return g, nil
}

// sweep removes temporary files of this package.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); e.Type().IsRegular() && strings.HasPrefix(n, ".") && strings.HasSuffix(n, durable.Unfinished) {
			if err := os.Remove(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pictureBytes is the size of all images of a folder.
func pictureBytes(dir string) (sum int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".png" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, err
}

// Save writes a file of the folder. An image that is not stored does not prevent the
// rest from being written.
func (g *Gallery) Save(name string, step int, ts []*rollout.Trajectory) error {
	if g.images == nil {
		return unmade.Error("store.Gallery", "OpenGallery")
	}
	if filepath.Base(name) != name {
		return fmt.Errorf("store: save: the name is %q, must be a file name without folders", name)
	}
	w, err := Create(filepath.Join(g.dir, name))
	if err != nil {
		return err
	}
	w.images = g.images
	return errors.Join(w.Write(step, ts...), w.Close())
}

// Sync waits until the images of all files so far are on the disk, as the files themselves are when
// Save returns: a power failure does not lose them then.
func (g *Gallery) Sync() {
	if g.images == nil {
		return
	}
	paths := g.images.fresh
	if len(paths) > 0 {
		paths = append(paths, g.images.dir)
	}
	for _, path := range paths {
		if err := durable.Sync(path); err != nil {
			g.omit("an image cannot be written", "err", err)
		}
	}
	g.images.fresh = nil
}

// omit counts an image that is not stored, and logs the reason for the first one.
func (g *Gallery) omit(why string, args ...any) {
	if g.omitted++; g.omitted == 1 {
		g.o.Log.Warn(why, append([]any{"folder", g.images.dir}, args...)...)
	}
}

// Absent is an image that was not stored or has been deleted: a name without pixels.
// Writing it to another file writes the same name.
type Absent string

// ColorModel implements image.Image.
func (Absent) ColorModel() color.Model { return color.NRGBAModel }

// Bounds implements image.Image: it is empty.
func (Absent) Bounds() image.Rectangle { return image.Rectangle{} }

// At implements image.Image.
func (Absent) At(int, int) color.Color { return color.NRGBA{} }
