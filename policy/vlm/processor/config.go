package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

var (
	// ErrUnsupported reports a setting that needs image processing that this
	// package does not implement.
	ErrUnsupported = errors.New("not supported")
	// ErrConfig reports settings that contradict each other or are malformed.
	ErrConfig = errors.New("bad configuration")
	// ErrImage reports an image that cannot be processed.
	ErrImage = errors.New("image cannot be used")
)

// Config describes how images are converted to patches. The fields are those of
// preprocessor_config.json and are used as written.
type Config struct {
	PatchSize         int // P, side of a patch in pixels
	TemporalPatchSize int // T, frames in a patch; an image fills all of them
	MergeSize         int // M, side of one token, in patches

	// MinPixels and MaxPixels bound the area after resizing, as far as that is
	// possible with sides that are multiples of P·M. One token covers (P·M)² pixels.
	MinPixels, MaxPixels int

	Rescale float64    // pixel values are multiplied by this, then
	Mean    [3]float64 // this is subtracted per channel,
	Std     [3]float64 // and divided by this

	Type  string // image_processor_type, for Save
	Class string // processor_class, for Save; "" leaves it out
}

// Qwen25VL returns the configuration of the released Qwen2.5-VL models. Their
// upper bound is 16,384 tokens for one image: lower MaxPixels to what the
// environment's images need.
func Qwen25VL() Config {
	return Config{
		PatchSize: 14, TemporalPatchSize: 2, MergeSize: 2,
		MinPixels: 56 * 56, MaxPixels: 16384 * 28 * 28,
		Rescale: 1.0 / 255,
		Mean:    [3]float64{0.48145466, 0.4578275, 0.40821073}, // CLIP's (Radford et al. 2021)
		Std:     [3]float64{0.26862954, 0.26130258, 0.27577711},
		Type:    "Qwen2VLImageProcessor", Class: "Qwen2_5_VLProcessor",
	}
}

// Qwen3VL returns the configuration of the released Qwen3-VL models.
func Qwen3VL() Config {
	return Config{
		PatchSize: 16, TemporalPatchSize: 2, MergeSize: 2,
		MinPixels: 256 * 256, MaxPixels: 4096 * 4096,
		Rescale: 1.0 / 255,
		Mean:    [3]float64{0.5, 0.5, 0.5},
		Std:     [3]float64{0.5, 0.5, 0.5},
		Type:    "Qwen2VLImageProcessorFast", Class: "Qwen3VLProcessor",
	}
}

const (
	maxFactor = 1024 // bounds P·M and T, so that sizes cannot overflow
	maxScale  = 1e6  // bounds the numbers of normalisation, so that pixels cannot
)

// Validate reports all invalid fields of c; the error wraps ErrConfig.
func (c Config) Validate() error {
	var bad field.Checks
	for _, f := range []struct {
		name  string
		value int
	}{{"patch_size", c.PatchSize}, {"temporal_patch_size", c.TemporalPatchSize}, {"merge_size", c.MergeSize}} {
		if f.value < 1 || f.value > maxFactor {
			bad.Say("%s is %d, want 1 to %d", f.name, f.value, maxFactor)
		}
	}
	if f := c.factor(); len(bad.Errors()) == 0 && f > maxFactor {
		bad.Say("patch_size times merge_size is %d, want at most %d", f, maxFactor)
	} else if len(bad.Errors()) == 0 && c.MaxPixels < f*f {
		bad.Say("max_pixels is %d, want at least the %d of one token", c.MaxPixels, f*f)
	}
	if c.MinPixels < 1 || c.MinPixels > c.MaxPixels {
		bad.Say("min_pixels is %d, want 1 to max_pixels, which is %d", c.MinPixels, c.MaxPixels)
	}
	if c.MaxPixels > maxPixels {
		bad.Say("max_pixels is %d, want at most %d", c.MaxPixels, maxPixels)
	}
	if !(c.Rescale > 0 && c.Rescale <= maxScale) {
		bad.Say("rescale_factor is %v, want more than 0 and at most %.0g", c.Rescale, maxScale)
	}
	for i := range 3 {
		if !(math.Abs(c.Mean[i]) <= maxScale) {
			bad.Say("image_mean[%d] is %v, want at most %.0g in size", i, c.Mean[i], maxScale)
		}
		if !(c.Std[i] >= 1/maxScale && c.Std[i] <= maxScale) {
			bad.Say("image_std[%d] is %v, want %.0g to %.0g", i, c.Std[i], 1/maxScale, maxScale)
		}
	}
	if err := bad.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// factor is the number of pixels of which sides are multiples.
func (c Config) factor() int { return c.PatchSize * c.MergeSize }

const (
	configFile    = "preprocessor_config.json"
	processorFile = "processor_config.json"
	maxConfigFile = 1 << 20
)

// fileConfig is the part of the files that affects patches.
type fileConfig struct {
	DoConvertRGB *bool `json:"do_convert_rgb"`
	DoResize     *bool `json:"do_resize"`
	DoRescale    *bool `json:"do_rescale"`
	DoNormalize  *bool `json:"do_normalize"`
	Resample     *int  `json:"resample"`

	PatchSize         *int        `json:"patch_size"`
	TemporalPatchSize *int        `json:"temporal_patch_size"`
	MergeSize         *int        `json:"merge_size"`
	MinPixels         *int        `json:"min_pixels"`
	MaxPixels         *int        `json:"max_pixels"`
	Size              *sizeConfig `json:"size"`
	RescaleFactor     *float64    `json:"rescale_factor"`
	ImageMean         []float64   `json:"image_mean"`
	ImageStd          []float64   `json:"image_std"`
	Type              string      `json:"image_processor_type"`
	Class             string      `json:"processor_class"`
	ImageProcessor    *fileConfig `json:"image_processor"`
}

// sizeConfig bounds numbers of pixels, in spite of its keys' names.
type sizeConfig struct {
	ShortestEdge *int `json:"shortest_edge"`
	LongestEdge  *int `json:"longest_edge"`
}

// LoadConfig reads the image processor's settings from a model folder: the part
// "image_processor" of processor_config.json if there is one, else
// preprocessor_config.json. The pixel bounds are min_pixels and max_pixels, or
// size.shortest_edge and size.longest_edge; the former take precedence. Settings that are
// missing get the defaults of transformers' Qwen2-VL processor.
func LoadConfig(dir string) (Config, error) {
	var outer fileConfig
	name := processorFile
	err := readJSON(filepath.Join(dir, name), &outer)
	file := outer.ImageProcessor
	if errors.Is(err, fs.ErrNotExist) || err == nil && file == nil {
		name, file = configFile, &fileConfig{}
		err = readJSON(filepath.Join(dir, name), file)
	}
	if err != nil {
		return Config{}, fmt.Errorf("processor: %w", err)
	}
	if file.Class == "" {
		file.Class = outer.Class
	}
	c, err := file.config()
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return Config{}, fmt.Errorf("processor: %s: %w", filepath.Join(dir, name), err)
	}
	return c, nil
}

func readJSON(path string, dst any) error {
	raw, err := regular.ReadAtMost(path, maxConfigFile, ErrConfig)
	if err != nil {
		return err
	}
	if err := jsontext.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrConfig, err)
	}
	return nil
}

// knownTypes are the image processors that this package implements; the type may be absent.
var knownTypes = []string{"", "Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil",
	"Qwen2_5_VLImageProcessor", "Qwen3VLImageProcessor", "Qwen3VLImageProcessorFast"}

const bicubicCode = 3 // of Pillow's resampling filters

func (f *fileConfig) config() (Config, error) {
	var errs []error
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"do_convert_rgb", f.DoConvertRGB}, {"do_resize", f.DoResize}, {"do_rescale", f.DoRescale},
		{"do_normalize", f.DoNormalize}} {
		if flag.value != nil && !*flag.value {
			errs = append(errs, fmt.Errorf("%w: %s false", ErrUnsupported, flag.name))
		}
	}
	if f.Resample != nil && *f.Resample != bicubicCode {
		errs = append(errs, fmt.Errorf("%w: resample %d, want %d (bicubic)", ErrUnsupported, *f.Resample, bicubicCode))
	}
	if !slices.Contains(knownTypes, f.Type) {
		errs = append(errs, fmt.Errorf("%w: image_processor_type %q", ErrUnsupported, f.Type))
	}
	c := Qwen25VL()
	c.MaxPixels = 1280 * 28 * 28
	c.Class = f.Class
	if f.Type != "" {
		c.Type = f.Type
	}
	if f.Size != nil && f.Size.ShortestEdge != nil && f.Size.LongestEdge != nil {
		c.MinPixels, c.MaxPixels = *f.Size.ShortestEdge, *f.Size.LongestEdge
	} else if f.Size != nil && (f.MinPixels == nil || f.MaxPixels == nil) {
		errs = append(errs, fmt.Errorf("%w: size needs shortest_edge and longest_edge", ErrConfig))
	}
	set(&c.PatchSize, f.PatchSize)
	set(&c.TemporalPatchSize, f.TemporalPatchSize)
	set(&c.MergeSize, f.MergeSize)
	set(&c.MinPixels, f.MinPixels)
	set(&c.MaxPixels, f.MaxPixels)
	set(&c.Rescale, f.RescaleFactor)
	for _, list := range []struct {
		name string
		from []float64
		to   *[3]float64
	}{{"image_mean", f.ImageMean, &c.Mean}, {"image_std", f.ImageStd, &c.Std}} {
		if list.from == nil {
			continue
		}
		if len(list.from) != 3 {
			errs = append(errs, fmt.Errorf("%w: %s has %d numbers, want 3", ErrConfig, list.name, len(list.from)))
			continue
		}
		*list.to = [3]float64(list.from)
	}
	return c, errors.Join(errs...)
}

func set[T any](dst *T, from *T) {
	if from != nil {
		*dst = *from
	}
}

// Save writes preprocessor_config.json into dir, in a form that old and new
// versions of transformers read.
func (c Config) Save(dir string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	file := map[string]any{
		"do_convert_rgb": true, "do_resize": true, "do_rescale": true, "do_normalize": true,
		"resample":            bicubicCode,
		"patch_size":          c.PatchSize,
		"temporal_patch_size": c.TemporalPatchSize,
		"merge_size":          c.MergeSize,
		"min_pixels":          c.MinPixels,
		"max_pixels":          c.MaxPixels,
		"size":                map[string]int{"shortest_edge": c.MinPixels, "longest_edge": c.MaxPixels},
		"rescale_factor":      c.Rescale,
		"image_mean":          c.Mean,
		"image_std":           c.Std,
	}
	if c.Type != "" {
		file["image_processor_type"] = c.Type
	}
	if c.Class != "" {
		file["processor_class"] = c.Class
	}
	raw, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, configFile), append(raw, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	return nil
}
