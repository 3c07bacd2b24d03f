package termimage

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTerminalsAreDetected(t *testing.T) {
	for want, envs := range map[Protocol][]map[string]string{
		Kitty: {{"TERM": "xterm-kitty"}, {"KITTY_WINDOW_ID": "1"}, {"TERM": "xterm-ghostty"}},
		ITerm: {{"TERM_PROGRAM": "iTerm.app"}, {"TERM_PROGRAM": "WezTerm"}, {"LC_TERMINAL": "iTerm2"}},
		None: {{}, {"TERM": "xterm-256color"}, {"TERM": "screen.xterm", "TERM_PROGRAM": "iTerm.app"},
			{"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x"}},
	} {
		for _, e := range envs {
			for _, name := range []string{"TERM", "TERM_PROGRAM", "TMUX", "KITTY_WINDOW_ID", "LC_TERMINAL"} {
				t.Setenv(name, e[name])
			}
			require.Equal(t, want, Detect(), e)
		}
	}
}

// noise returns an incompressible image, so that its PNG has several parts.
func noise(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(3, 5, 3+w, 5+h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	return m
}

func requireSame(t *testing.T, want image.Image, data string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(data)
	require.NoError(t, err)
	got, err := png.Decode(bytes.NewReader(raw))
	require.NoError(t, err)
	box := want.Bounds()
	for y := range box.Dy() {
		for x := range box.Dx() {
			require.Equal(t, color.NRGBAModel.Convert(want.At(box.Min.X+x, box.Min.Y+y)), color.NRGBAModel.Convert(got.At(x, y)))
		}
	}
}

func TestKittyGetsThePictureInParts(t *testing.T) {
	m := noise(60, 40)
	var out bytes.Buffer
	require.NoError(t, Write(&out, Kitty, m))
	parts := strings.Split(strings.TrimSuffix(out.String(), "\x1b\\\n"), "\x1b\\")
	require.Greater(t, len(parts), 1)
	data := ""
	for i, part := range parts {
		control, chunk, found := strings.Cut(part, ";")
		require.True(t, found)
		require.LessOrEqual(t, len(chunk), 4096)
		want := "\x1b_Gm=1"
		switch i {
		case 0:
			want = "\x1b_Gf=100,a=T,m=1"
		case len(parts) - 1:
			want = "\x1b_Gm=0"
		}
		require.Equal(t, want, control)
		data += chunk
	}
	requireSame(t, m, data)
}

func TestITermGetsThePictureAsAFile(t *testing.T) {
	m := noise(20, 10)
	var out bytes.Buffer
	require.NoError(t, Write(&out, ITerm, m))
	head, data, found := strings.Cut(strings.TrimSuffix(out.String(), "\a\n"), ":")
	require.True(t, found)
	require.True(t, strings.HasPrefix(head, "\x1b]1337;File=inline=1;size="))
	requireSame(t, m, data)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestImagesThatCannotBeShownAreErrors(t *testing.T) {
	require.ErrorContains(t, Write(&bytes.Buffer{}, None, noise(1, 1)), `"none" cannot show pictures`)
	for _, p := range Protocols()[1:] {
		require.ErrorContains(t, Write(broken{}, p, noise(1, 1)), "gone")
		require.NoError(t, Write(&bytes.Buffer{}, p, noise(1, 1)))
	}
}
