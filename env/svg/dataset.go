package svg

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"vagen/env"
	"vagen/internal/jsontext"
	"vagen/internal/numpyrand"
	"vagen/internal/regular"
)

// Sample is a drawing to reproduce.
type Sample struct {
	Name string
	Code string
}

// Dataset is an immutable list of drawings, safe for concurrent use.
type Dataset struct {
	samples []Sample
}

// ErrDataset is wrapped by errors about drawings that cannot be loaded.
var ErrDataset = errors.New("bad data set")

// NewDataset returns a data set of the samples, in their order. At least one is required.
func NewDataset(samples []Sample) (*Dataset, error) {
	if len(samples) == 0 {
		return nil, fmt.Errorf("svg: %w: no samples, at least one is needed", ErrDataset)
	}
	return &Dataset{samples: slices.Clone(samples)}, nil
}

// Len returns the number of samples.
func (d *Dataset) Len() int { return len(d.samples) }

// At returns a sample by its index.
func (d *Dataset) At(i int) Sample { return d.samples[i] }

// Pick returns the sample of a seed: that with the index random.Random(seed).randint(0,
// Len−1) of Python, so that a seed gives the same sample as in the original environment. A zero value
// has only an empty sample.
func (d *Dataset) Pick(seed int64) Sample {
	if len(d.samples) == 0 {
		return Sample{}
	}
	var stream numpyrand.MT19937
	stream.SeedPython(seed)
	return d.samples[stream.Below(uint64(len(d.samples)))]
}

//go:embed icons/*.svg
var icons embed.FS

// Icons returns the built-in drawings in the order of their names.
var Icons = sync.OnceValue(func() *Dataset {
	d, err := fromFolder(icons, "icons")
	if err != nil {
		panic(err) // the files are embedded
	}
	return d
})

// load reads a data set: the .svg files of a folder and its subfolders in the order of their
// paths, or a file of JSON lines, each an object with the fields Svg and Filename (or svg and
// filename).
func load(path string) (*Dataset, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("svg: %w: %w", ErrDataset, err)
	}
	if info.IsDir() {
		return fromFolder(os.DirFS(path), ".")
	}
	return fromLines(path)
}

func fromFolder(in fs.FS, root string) (*Dataset, error) {
	var samples []Sample
	err := fs.WalkDir(in, root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.EqualFold(path.Ext(name), ".svg") {
			return err
		}
		switch info, err := fs.Stat(in, name); {
		case err != nil || !info.Mode().IsRegular():
			return err // reading a pipe would block
		case info.Size() > maxLine:
			return fmt.Errorf("%s has %d bytes, at most %d are allowed", name, info.Size(), maxLine)
		}
		code, err := fs.ReadFile(in, name)
		samples = append(samples, Sample{Name: strings.TrimPrefix(name, root+"/"), Code: string(code)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("svg: %w: %w", ErrDataset, err)
	}
	return NewDataset(samples)
}

// maxLine is the maximum length of an .svg file and of a line of a JSON lines file, in bytes.
const maxLine = 16 << 20

func fromLines(name string) (*Dataset, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, fmt.Errorf("svg: %w: %w", ErrDataset, err)
	}
	defer f.Close()
	var samples []Sample
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		// encoding/json ignores the case of field names.
		var record struct{ Svg, Filename string }
		if err := jsontext.UnmarshalLine(lines.Bytes(), n, &record); err != nil {
			return nil, fmt.Errorf("svg: %w: %s, line %d: %w", ErrDataset, name, n, err)
		}
		if record.Svg == "" {
			return nil, fmt.Errorf("svg: %w: %s, line %d: the field Svg is missing or empty", ErrDataset, name, n)
		}
		if record.Filename == "" {
			record.Filename = fmt.Sprintf("image_%d", len(samples))
		}
		samples = append(samples, Sample{Name: record.Filename, Code: record.Svg})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("svg: %w: %s: %w", ErrDataset, name, err)
	}
	return NewDataset(samples)
}

// source returns the path of the data: below DataDir, the folder or file with the data set's
// name and split. If there is none and both options have their defaults, it is DataDir.
func (o *Options) source() (string, error) {
	below := filepath.Join(strings.ReplaceAll(o.DatasetName, "/", "-"), o.Split)
	if below != "" && !filepath.IsLocal(below) {
		return "", fmt.Errorf("svg: options dataset_name and split: %w: they give the path %q, which is not below data_dir",
			env.ErrOption, below)
	}
	named := filepath.Join(o.DataDir, below)
	places := []string{named, named + ".jsonl"}
	if own := DefaultOptions(); o.DatasetName == own.DatasetName && o.Split == own.Split {
		places = append(places, o.DataDir)
	}
	for _, name := range places {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("svg: option %q: %w: none of %q exists", "data_dir", ErrDataset, places)
}

// loaded has the data sets of files and folders, which the environments of a run share.
var loaded regular.Cache[*Dataset]

// dataset returns the data of the options.
func (o *Options) dataset() (*Dataset, error) {
	if o.DataDir == "" {
		return Icons(), nil
	}
	name, err := o.source()
	if err != nil {
		return nil, err
	}
	return loaded.Get(name, load)
}
