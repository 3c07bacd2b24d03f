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

	"vagen/rollout"
)

// Gallery is a folder of files that share their images, and says how those are
// kept. It is not safe for concurrent use.
//
// What becomes of an image depends only on those before it, so a run that goes on
// leaves the folder that it would have left without a stop.
type Gallery struct {
	dir     string
	o       GalleryOptions
	images  *folder
	omitted int
	warned  bool
}

// GalleryOptions say which images are stored, and how. The zero value stores all of
// them, as image/png does by default.
type GalleryOptions struct {
	// NamesOnly stores no image; files name what they would show.
	NamesOnly bool
	Level     png.CompressionLevel
	// Quota is how many bytes of images the folder may hold; those that do not fit
	// are left out. 0 is no limit.
	Quota int64
	// Log hears once of images that are left out, or cannot be written; nil discards it.
	Log *slog.Logger
}

// OpenGallery makes the folder where it is not there, and removes what was being
// written to it when a process died.
func OpenGallery(dir string, o GalleryOptions) (*Gallery, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	images := newFolder(filepath.Join(dir, "any"))
	g := &Gallery{dir: dir, o: o, images: images}
	images.gallery = g
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := sweep(dir, "."); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := sweep(images.dir, ".image-"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	// Whether the folder can be written to is better known now than after a step.
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
func sweep(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); e.Type().IsRegular() && strings.HasPrefix(n, prefix) && strings.HasSuffix(n, ".tmp") {
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

// Save writes a file of the folder. An image that is left out, or cannot be
// written, costs nothing but itself.
func (g *Gallery) Save(name string, step int, ts []*rollout.Trajectory) error {
	if filepath.Base(name) != name {
		return fmt.Errorf("store: %q is not the name of a file in a folder", name)
	}
	w, err := Create(filepath.Join(g.dir, name))
	if err != nil {
		return err
	}
	w.images = g.images
	return errors.Join(w.Write(step, ts...), w.Close())
}

// Omitted counts images that were left out or could not be written.
func (g *Gallery) Omitted() int { return g.omitted }

// omit counts an image that is not stored and says why, the first time.
func (g *Gallery) omit(why string, args ...any) {
	g.omitted++
	if !g.warned {
		g.warned = true
		g.o.Log.Warn(why, append([]any{"folder", g.images.dir}, args...)...)
	}
}

// Absent is an image that was not stored, or is no longer there: its name, and no
// pixels. Files that it is written to again have the same name.
type Absent string

// ColorModel implements image.Image.
func (Absent) ColorModel() color.Model { return color.NRGBAModel }

// Bounds implements image.Image: it is empty.
func (Absent) Bounds() image.Rectangle { return image.Rectangle{} }

// At implements image.Image.
func (Absent) At(int, int) color.Color { return color.NRGBA{} }
