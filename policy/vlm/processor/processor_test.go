package processor

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// picture is a smooth image with an odd size and detail in every channel.
func picture(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetNRGBA(x, y, color.NRGBA{byte(7 * x), byte(5 * y), byte(3*x ^ y), 255})
		}
	}
	return m
}

func small() Config {
	c := Qwen25VL()
	c.PatchSize, c.MinPixels, c.MaxPixels = 2, 16, 4096
	return c
}

func made(t testing.TB, c Config) *Processor {
	t.Helper()
	p, err := New(c)
	require.NoError(t, err)
	return p
}

func patches(t testing.TB, c Config, img image.Image) Patches {
	t.Helper()
	var out Patches
	require.NoError(t, made(t, c).Patches(&out, img))
	return out
}

// With the size unchanged, where every byte goes can be written down.
func TestPatchesAreOrderedByBlockThenChannel(t *testing.T) {
	img := picture(8, 4)
	p := made(t, small())
	var got Patches
	require.NoError(t, p.Patches(&got, img))
	require.Equal(t, Grid{1, 2, 4}, got.Grid)
	require.Equal(t, 2, p.Tokens(got.Grid))
	var want []byte
	for _, corner := range [][2]int{{0, 0}, {2, 0}, {0, 2}, {2, 2}, {4, 0}, {6, 0}, {4, 2}, {6, 2}} { // x, y
		for ch := range 3 {
			for y := range 2 {
				for x := range 2 {
					want = append(want, img.Pix[img.PixOffset(corner[0]+x, corner[1]+y)+ch])
				}
			}
		}
	}
	require.Equal(t, want, got.Pix)
}

func TestNormalizeRepeatsEachChannelPerFrame(t *testing.T) {
	c := small()
	c.TemporalPatchSize = 3
	p := made(t, c)
	pix := []byte{0, 1, 2, 3, 100, 101, 102, 103, 252, 253, 254, 255}
	got := p.Normalize([]float32{42}, append(pix, 9)) // 9 is no whole row
	require.Len(t, got, 1+p.Dim())
	require.Equal(t, float32(42), got[0])
	for i, v := range got[1:] {
		ch, x := i/12, i%4
		want := (float64(pix[4*ch+x])/255 - c.Mean[ch]) / c.Std[ch]
		require.InDelta(t, want, v, 1e-6, "%d", i) // float32 of values up to 2.7
	}
}

func TestEveryKindOfImageBecomesTheSamePixels(t *testing.T) {
	base := picture(9, 7)
	want := patches(t, small(), base)
	draws := map[string]draw.Image{
		"RGBA":    image.NewRGBA(base.Bounds()),
		"RGBA64":  image.NewRGBA64(base.Bounds()),
		"NRGBA64": image.NewNRGBA64(base.Bounds()),
		"other":   other{image.NewRGBA(base.Bounds())},
	}
	for name, m := range draws {
		draw.Draw(m, base.Bounds(), base, image.Point{}, draw.Src)
		require.Equal(t, want, patches(t, small(), m), name)
	}
	moved := image.NewNRGBA(image.Rect(-3, 5, 20, 30))
	draw.Draw(moved, image.Rect(2, 9, 11, 16), base, image.Point{}, draw.Src)
	require.Equal(t, want, patches(t, small(), moved.SubImage(image.Rect(2, 9, 11, 16))),
		"part of an image that begins elsewhere")

	grey, deep := image.NewGray(base.Bounds()), image.NewGray16(base.Bounds())
	full := image.NewNRGBA(base.Bounds())
	paletted := image.NewPaletted(base.Bounds(), nil)
	for i := range 256 {
		paletted.Palette = append(paletted.Palette, color.NRGBA{byte(i), byte(i), byte(i), 255})
	}
	for i := range grey.Pix {
		v := byte(31 * i)
		x, y := i%9, i/9
		grey.Pix[i], paletted.Pix[i] = v, v
		deep.SetGray16(x, y, color.Gray16{uint16(v)<<8 | 0xff})
		full.SetNRGBA(x, y, color.NRGBA{v, v, v, 255})
	}
	want = patches(t, small(), full)
	require.Equal(t, want, patches(t, small(), grey), "grey")
	require.Equal(t, want, patches(t, small(), deep), "16 bits keep the upper 8")
	require.Equal(t, want, patches(t, small(), paletted), "palette")
}

type other struct{ draw.Image }

// Values computed by Pillow's alpha_composite on white.
func TestTransparentPixelsArePutOnWhite(t *testing.T) {
	for _, c := range []struct{ v, a, want byte }{
		{10, 0, 255}, {10, 255, 10}, {0, 128, 127}, {0, 127, 128}, {200, 1, 255}, {0, 1, 254}, {100, 77, 208}, {255, 99, 255},
	} {
		var got [3]byte
		over(got[:], c.v, 0, 0, c.a)
		require.Equal(t, c.want, got[0], "%d at alpha %d", c.v, c.a)
	}
	// The premultiplied form of the same colour.
	n, m := image.NewNRGBA(image.Rect(0, 0, 4, 4)), image.NewRGBA(image.Rect(0, 0, 4, 4))
	for i := range 16 {
		n.SetNRGBA(i%4, i/4, color.NRGBA{255, 0, 255, byte(17 * i)})
		m.Set(i%4, i/4, n.At(i%4, i/4))
	}
	require.Equal(t, patches(t, small(), n), patches(t, small(), m))
}

func TestPatchesReuseTheirBuffer(t *testing.T) {
	p := made(t, small())
	var out Patches
	require.NoError(t, p.Patches(&out, picture(40, 30)))
	first := &out.Pix[0]
	require.NoError(t, p.Patches(&out, picture(9, 7)))
	require.Same(t, first, &out.Pix[0])
	require.Len(t, out.Pix, out.Grid.Patches()*p.PixDim())
}

func TestConcurrentUseGivesTheSamePatches(t *testing.T) {
	p := made(t, small())
	sizes := [][2]int{{9, 7}, {30, 11}, {64, 64}, {5, 50}}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			size := sizes[i%len(sizes)]
			img := picture(size[0], size[1])
			var out Patches
			if err := p.Patches(&out, img); err != nil {
				t.Error(err)
				return
			}
			if !bytes.Equal(out.Pix, patches(t, small(), img).Pix) {
				t.Errorf("%v differs", size)
			}
		})
	}
	group.Wait()
}

// Weights sum to one up to their rounding, so one colour stays that colour.
func TestOneColourSurvivesAnyResize(t *testing.T) {
	for _, size := range [][4]int{{1, 1, 9, 5}, {100, 3, 1, 1}, {7, 9, 8, 300}, {500, 400, 3, 2}} {
		src := bytes.Repeat([]byte{0, 255, 93}, size[0]*size[1])
		got := new(work).resize(src, size[0], size[1], size[2], size[3])
		require.Equal(t, bytes.Repeat([]byte{0, 255, 93}, size[2]*size[3]), got, "%v", size)
	}
}

func TestSmartSizeRefuses(t *testing.T) {
	_, _, err := SmartSize(1, 201, 28, 1, 1000)
	testkit.Error(t, err, ErrImage, "200 times")
	_, _, err = SmartSize(1, 200, 28, 1, 1<<20)
	require.NoError(t, err)
	for _, size := range [][2]int{{0, 5}, {5, 0}, {-1, 5}, {1 << 17, 1 << 17}} {
		_, _, err = SmartSize(size[0], size[1], 28, 1, 1000)
		require.ErrorIs(t, err, ErrImage, "%v", size)
	}
	_, _, err = SmartSize(5, 5, 0, 1, 1000)
	require.ErrorIs(t, err, ErrConfig)
	h, w, err := SmartSize(70, 98, 28, 1, 1<<20)
	require.NoError(t, err)
	require.Equal(t, [2]int{56, 112}, [2]int{h, w}, "2.5 rounds to 2 and 3.5 to 4")
}

func TestPatchesRefuseWhatHasNoSize(t *testing.T) {
	p := made(t, small())
	var out Patches
	require.ErrorIs(t, p.Patches(&out, image.NewGray(image.Rect(0, 0, 0, 3))), ErrImage)
	require.ErrorIs(t, p.Patches(&out, image.NewGray(image.Rect(0, 0, 1, 300))), ErrImage)
}

func TestNumbersOfNormalisationThatNoProcessorHasAreNamed(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"rescale_factor is 0, want more than 0 and at most 1e+06": func(c *Config) { c.Rescale = 0 },
		"rescale_factor is 1e+300":                                func(c *Config) { c.Rescale = 1e300 },
		"image_mean[2] is -1e+300, want at most 1e+06 in size":    func(c *Config) { c.Mean[2] = -1e300 },
		"image_std[0] is 1e-300, want 1e-06 to 1e+06":             func(c *Config) { c.Std[0] = 1e-300 },
	} {
		c := Qwen25VL()
		set(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	c := Config{PatchSize: 0, TemporalPatchSize: -1, MergeSize: 2000, MinPixels: 9, MaxPixels: 3, Rescale: math.NaN(),
		Mean: [3]float64{0, math.Inf(1), 0}}
	_, err := New(c)
	require.ErrorIs(t, err, ErrConfig)
	for _, want := range []string{"patch_size is 0", "temporal_patch_size is -1", "merge_size is 2000", "min_pixels is 9",
		"rescale_factor", "image_mean[1]", "image_std[0]", "image_std[2]"} {
		require.ErrorContains(t, err, want)
	}
	c = Qwen25VL()
	c.MaxPixels = 783
	c.MinPixels = 1
	_, err = New(c)
	require.ErrorContains(t, err, "784 of one token")
	for _, c := range []Config{Qwen25VL(), Qwen3VL()} {
		require.NoError(t, c.Validate())
	}
}

func writeConfig(t *testing.T, name, content string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	return dir
}

func TestLoadConfigTakesOldAndNewKeys(t *testing.T) {
	old := writeConfig(t, configFile,
		`{"min_pixels":3136,"max_pixels":23520,"patch_size":14,"merge_size":2,"temporal_patch_size":2,"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6],"processor_class":"X"}`)
	c, err := LoadConfig(old)
	require.NoError(t, err)
	require.Equal(t, [2]int{3136, 23520}, [2]int{c.MinPixels, c.MaxPixels})
	require.Equal(t, [3]float64{0.1, 0.2, 0.3}, c.Mean)
	require.Equal(t, [3]float64{0.4, 0.5, 0.6}, c.Std)
	require.Equal(t, "X", c.Class)

	c, err = LoadConfig(writeConfig(t, configFile, `{"size":{"shortest_edge":4096,"longest_edge":24576},"patch_size":16}`))
	require.NoError(t, err)
	require.Equal(t, [3]int{4096, 24576, 16}, [3]int{c.MinPixels, c.MaxPixels, c.PatchSize})

	c, err = LoadConfig(writeConfig(t, configFile,
		`{"size":{"shortest_edge":4096,"longest_edge":24576},"min_pixels":5000}`))
	require.NoError(t, err)
	require.Equal(t, [2]int{5000, 24576}, [2]int{c.MinPixels, c.MaxPixels}, "the old keys win")

	c, err = LoadConfig(writeConfig(t, configFile, `{}`))
	require.NoError(t, err)
	require.Equal(t, [2]int{3136, 1003520}, [2]int{c.MinPixels, c.MaxPixels}, "defaults of transformers")

	inner := writeConfig(t, processorFile,
		`{"processor_class":"Y","image_processor":{"min_pixels":784,"max_pixels":7840}}`)
	c, err = LoadConfig(inner)
	require.NoError(t, err)
	require.Equal(t, 7840, c.MaxPixels)
	require.Equal(t, "Y", c.Class)

	both := writeConfig(t, configFile, `{"min_pixels":784,"max_pixels":1568}`)
	require.NoError(t, os.WriteFile(filepath.Join(both, processorFile), []byte(`{"processor_class":"Y"}`), 0o600))
	c, err = LoadConfig(both)
	require.NoError(t, err)
	require.Equal(t, 1568, c.MaxPixels, "a processor_config.json without an image processor")
}

func TestLoadConfigRefuses(t *testing.T) {
	_, err := LoadConfig(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	for content, want := range map[string]string{
		`{"do_resize":false,"do_normalize":false}`:      "do_normalize false",
		`{"do_convert_rgb":false}`:                      "do_convert_rgb false",
		`{"do_rescale":false}`:                          "do_rescale false",
		`{"resample":2}`:                                "resample 2",
		`{"image_processor_type":"CLIPImageProcessor"}`: `"CLIPImageProcessor"`,
	} {
		_, err := LoadConfig(writeConfig(t, configFile, content))
		testkit.Error(t, err, ErrUnsupported, want)
	}
	for content, want := range map[string]string{
		`{"image_mean":[1,2]}`:                "image_mean has 2 numbers",
		`{"size":{"height":5,"width":5}}`:     "shortest_edge",
		`{"patch_size":"x"}`:                  "patch_size",
		`{"min_pixels":9000,"max_pixels":10}`: "min_pixels is 9000",
		`[`:                                   "unexpected end",
	} {
		_, err := LoadConfig(writeConfig(t, configFile, content))
		testkit.Error(t, err, ErrConfig, want)
	}
}

func TestSavedConfigLoadsAsItWas(t *testing.T) {
	for _, c := range []Config{Qwen25VL(), Qwen3VL(), small()} {
		dir := t.TempDir()
		p := made(t, c)
		require.NoError(t, p.Save(dir))
		back, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, c, back.Config())
	}
	require.ErrorIs(t, Config{}.Save(t.TempDir()), ErrConfig)
}

// header is a PNG that claims a size and holds no pixels.
func header(width, height uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, width), height)
	b = append(b, 8, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func TestDecodeImageChecksTheHeaderFirst(t *testing.T) {
	_, err := DecodeImage(bytes.NewReader(header(50000, 50000)), DefaultLimits())
	testkit.Error(t, err, ErrImage, "50000 by 50000")
	limits := Limits{Bytes: 1 << 20, Side: 100, Pixels: 600}
	for _, size := range [][2]int{{101, 1}, {1, 101}, {25, 25}} {
		_, err := DecodeImage(bytes.NewReader(header(uint32(size[0]), uint32(size[1]))), limits)
		require.ErrorContains(t, err, "must have sides from 1 to 100 and at most 600 pixels", "%v", size)
	}
}

func TestDecodeImageReadsPNGAndJPEG(t *testing.T) {
	img := picture(20, 10)
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	raw := b.Bytes()
	got, err := DecodeImage(bytes.NewReader(raw), DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, patches(t, small(), img), patches(t, small(), got))
	_, err = DecodeImage(bytes.NewReader(raw), Limits{Bytes: len(raw) - 1, Side: 99, Pixels: 999})
	require.ErrorContains(t, err, "more than")
	_, err = DecodeImage(bytes.NewReader(raw[:len(raw)/2]), DefaultLimits())
	require.ErrorIs(t, err, ErrImage)
	_, err = DecodeImage(bytes.NewReader(raw), Limits{})
	require.ErrorIs(t, err, ErrConfig)
	_, err = DecodeImage(bytes.NewReader([]byte("GIF89a…")), DefaultLimits())
	require.ErrorContains(t, err, "must be PNG or JPEG")

	b.Reset()
	require.NoError(t, jpeg.Encode(&b, img, nil))
	planes, err := jpeg.Decode(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	got, err = DecodeImage(&b, DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, img.Bounds(), got.Bounds())
	// The fast path of YCbCr images gives the colours that the standard library does.
	rgba := image.NewRGBA(planes.Bounds())
	draw.Draw(rgba, planes.Bounds(), planes, image.Point{}, draw.Src)
	require.Equal(t, patches(t, small(), rgba), patches(t, small(), planes))
}
