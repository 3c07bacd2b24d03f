package svg

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/origin"
	"vagen/internal/testkit"
)

func drawing(t *testing.T, body string) image.Image {
	t.Helper()
	img, err := render(t.Context(), `<svg viewBox="0 0 64 64">`+body+`</svg>`)
	require.NoError(t, err)
	return img
}

func iconPicture(t *testing.T, i int) image.Image {
	t.Helper()
	img, err := render(t.Context(), Icons().At(i).Code)
	require.NoError(t, err)
	return img
}

func TestScoresAreOneForEqualPicturesAndSymmetric(t *testing.T) {
	for i := range Icons().Len() {
		a, b := iconPicture(t, i), iconPicture(t, (i+7)%Icons().Len())
		require.Equal(t, 1.0, perceptual(a, a), Icons().At(i).Name)
		require.Equal(t, 1.0, structural(a, a), Icons().At(i).Name)
		for name, score := range map[string]func(a, b image.Image) float64{"perceptual": perceptual, "structural": structural} {
			s := score(a, b)
			require.True(t, s > 0 && s < 0.7, "%s: %s: %v", name, Icons().At(i).Name, s)
			require.InDelta(t, s, score(b, a), 1e-12, name)
		}
		require.Less(t, perceptual(a, blank()), 1e-9, "a white picture scores 0")
		require.Zero(t, structural(a, blank()))
	}
	require.Equal(t, 1.0, perceptual(blank(), blank()))
	require.Zero(t, structural(blank(), blank()), "as in the original")
	small := image.NewRGBA(image.Rect(0, 0, 3, 3))
	require.Zero(t, perceptual(small, blank()))
	require.Zero(t, structural(small, blank()))
	require.Zero(t, perceptual(image.NewRGBA(image.Rect(0, 0, 1, 1)), image.NewRGBA(image.Rect(0, 0, 1, 1))), "too small for any resolution")
	require.Nil(t, edgesIn(image.NewRGBA(image.Rect(0, 0, 0, 5))))
}

func TestPerceptualIncreasesWhileADrawingGetsCloser(t *testing.T) {
	target := drawing(t, `<circle cx="32" cy="32" r="14" fill="#c33"/>`)
	for name, steps := range map[string][]string{
		"place": {`<circle cx="10" cy="32" r="14" fill="#c33"/>`, `<circle cx="16" cy="32" r="14" fill="#c33"/>`,
			`<circle cx="22" cy="32" r="14" fill="#c33"/>`, `<circle cx="28" cy="32" r="14" fill="#c33"/>`, `<circle cx="31" cy="32" r="14" fill="#c33"/>`},
		"size":   {`<circle cx="32" cy="32" r="3" fill="#c33"/>`, `<circle cx="32" cy="32" r="7" fill="#c33"/>`, `<circle cx="32" cy="32" r="13" fill="#c33"/>`},
		"colour": {`<circle cx="32" cy="32" r="14" fill="#36c"/>`, `<circle cx="32" cy="32" r="14" fill="#939"/>`, `<circle cx="32" cy="32" r="14" fill="#b44"/>`},
		"shape": {`<rect x="20" y="26" width="24" height="12" fill="#c33"/>`, `<rect x="19" y="19" width="26" height="26" fill="#c33"/>`,
			`<rect x="18" y="18" width="28" height="28" rx="9" fill="#c33"/>`},
		"detail": {``, `<circle cx="32" cy="32" r="14" fill="none" stroke="#c33"/>`, `<circle cx="32" cy="32" r="14" fill="#c33"/>`},
	} {
		before := -1.0
		for _, body := range steps {
			s := perceptual(target, drawing(t, body))
			require.Greater(t, s, before, "%s: %s", name, body)
			before = s
		}
	}
}

func TestEdgesOfAStep(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 8, 6))
	for y := range 6 {
		for x := 4; x < 8; x++ {
			img.SetGray(x, y, color.Gray{255})
		}
	}
	// Both columns beside the step have the same slope; the left one becomes the edge.
	for i, e := range edgesIn(img) {
		require.Equal(t, i%8 == 3, e, "pixel %d", i)
	}
}

func TestTotalIsAWeightedSumThatIsNotNegative(t *testing.T) {
	s := scores{DINO: 0.5, DreamSim: 0.25, Structural: 0.75, Perceptual: 0.125}
	require.InDelta(t, 0.5*2+0.25*3+0.75*5+0.125*7, s.total(scores{DINO: 2, DreamSim: 3, Structural: 5, Perceptual: 7}), 1e-12)
	require.Zero(t, scores{DINO: -1}.total(scores{DINO: 1}))
}

func TestHTTPScorerSendsBothPicturesAndTriesAgain(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request map[string]string
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
		assert.Equal(t, "dino", request["metric"])
		assert.Equal(t, "base", request["model"])
		for name, want := range map[string]int{"target": 3, "attempt": 4} {
			raw, err := base64.StdEncoding.DecodeString(request[name])
			assert.NoError(t, err)
			size, err := png.DecodeConfig(bytes.NewReader(raw))
			assert.NoError(t, err)
			assert.Equal(t, want, size.Width, name)
		}
		if calls.Add(1) < 3 {
			http.Error(w, "loading", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"score": 0.75}`)
	}))
	defer server.Close()
	s := HTTPScorer{URL: server.URL, Metric: "dino", Model: "base", Pause: time.Millisecond}
	score, err := s.Score(t.Context(), image.NewGray(image.Rect(0, 0, 3, 3)), image.NewGray(image.Rect(0, 0, 4, 4)))
	require.NoError(t, err)
	require.Equal(t, 0.75, score)
	require.EqualValues(t, 3, calls.Load())
}

func TestHTTPScorerReportsWhyThereIsNoScore(t *testing.T) {
	for name, c := range map[string]struct {
		tries  int
		status int
		body   string
		calls  int64
		want   string
	}{
		"busy for good":  {2, 503, "loading", 2, "503"},
		"less than none": {-1, 503, "loading", 3, "503"},
		"refused":        {2, 400, "which metric?", 1, "status 400"},
		"no score":       {2, 200, `{"scores": [1]}`, 1, "no finite score"},
		"no JSON":        {2, 200, `<html>`, 1, "not a JSON object"},
		"too large":      {2, 200, `{"score": 1e999}`, 1, "not a JSON object"},
	} {
		var calls atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		s := HTTPScorer{URL: server.URL, Metric: "dreamsim", Tries: c.tries, Pause: time.Millisecond}
		_, err := s.Score(t.Context(), blank(), blank())
		server.Close()
		testkit.Error(t, err, ErrScore, c.want, "dreamsim")
		require.NotContains(t, err.Error(), c.body, name)
		require.Equal(t, c.calls, calls.Load(), name)
	}
	cause := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := HTTPScorer{URL: "http://127.0.0.1:1/", Metric: "dino", Pause: time.Hour, Transport: failing{cancel, cause}}
	_, err := s.Score(ctx, blank(), blank())
	require.ErrorIs(t, err, cause)
}

// failing is a transport that cancels its caller's context.
type failing struct {
	cancel context.CancelCauseFunc
	cause  error
}

func (f failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.cancel(f.cause)
	return nil, errors.New("no connection")
}

func FuzzScores(f *testing.F) {
	f.Add([]byte{0, 255, 3, 77}, uint8(2))
	f.Fuzz(func(t *testing.T, pixels []byte, width uint8) {
		w := int(width%32) + 1
		h := len(pixels) / w
		a, b := image.NewGray(image.Rect(0, 0, w, h)), image.NewGray(image.Rect(0, 0, w, h))
		copy(a.Pix, pixels)
		for i := range b.Pix {
			b.Pix[i] = pixels[len(pixels)-1-i]
		}
		for _, s := range []float64{perceptual(a, b), structural(a, b)} {
			if math.IsNaN(s) || s < 0 || s > 1 {
				t.Errorf("score %v", s)
			}
		}
	})
}

// TestRedirectsToOtherServicesAreFinal: no picture is sent again.
func TestRedirectsToOtherServicesAreFinal(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://else.test", http.StatusTemporaryRedirect))
	defer server.Close()
	s := HTTPScorer{URL: server.URL, Metric: "dino", Tries: 2, Pause: time.Hour}
	_, err := s.Score(t.Context(), blank(), blank())
	require.ErrorIs(t, err, origin.ErrForeign)
}
