package svg

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"time"

	"vagen/internal/clock"
	"vagen/internal/floats"
	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// scores holds the similarity of two pictures by each measure, or the weights of the
// measures. The measures of this package are in [0, 1].
type scores struct {
	DINO       float64 // similarity of DINOv2 features
	DreamSim   float64 // 1 − DreamSim distance
	Structural float64 // see structural
	Perceptual float64 // see perceptual
}

// total returns the weighted sum of the scores, or 0 if it is negative.
func (s scores) total(w scores) float64 {
	return max(0, s.DINO*w.DINO+s.Structural*w.Structural+s.DreamSim*w.DreamSim+s.Perceptual*w.Perceptual)
}

// Scorer measures the similarity of an attempt to its target: 1 for equal pictures,
// less for others. The score depends on the pictures alone.
type Scorer interface {
	Score(ctx context.Context, target, attempt image.Image) (float64, error)
}

// ErrScore is wrapped by errors of Step when a scorer returns no score. The episode has
// then failed: a missing score is not a score of zero.
var ErrScore = errors.New("no score")

// HTTPScorer requests scores from a service. The request is a POST of a JSON object
//
//	{"metric": "dino", "model": "small", "target": "<PNG in base64>", "attempt": "<PNG in base64>"}
//
// and the answer a JSON object {"score": 0.73}. A request that fails for a
// temporary reason (no connection, timeout, status 429 or 5xx) is repeated, not before the
// time that the service asks for. Errors do
// not quote the answer, because they may reach clients that must not see it.
type HTTPScorer struct {
	URL     string
	Metric  string        // name of the measure: dino or dreamsim
	Model   string        // model of the measure, may be empty
	Timeout time.Duration // of one try; 0 means 30 s
	Tries   int           // 0 or less means 3
	Pause   time.Duration // longest before the second try, doubled for each further one; 0 means 500 ms
	// Transport sends the requests; nil is http.DefaultTransport. Redirects are followed
	// within the scheme, host and port of URL only.
	Transport http.RoundTripper
}

var _ Scorer = (*HTTPScorer)(nil)

// maxAnswer bounds the answer of a service in bytes.
const maxAnswer = 1 << 16

// Score implements Scorer.
func (s *HTTPScorer) Score(ctx context.Context, target, attempt image.Image) (float64, error) {
	request := map[string]string{"metric": s.Metric, "model": s.Model}
	for name, img := range map[string]image.Image{"target": target, "attempt": attempt} {
		if img == nil {
			return 0, fmt.Errorf("svg: %s score: %s: the picture is nil", s.Metric, name)
		}
		var buf bytes.Buffer
		if err := png.Encode(&buf, img); err != nil {
			return 0, fmt.Errorf("svg: %s score: %s: %w", s.Metric, name, err)
		}
		request[name] = base64.StdEncoding.EncodeToString(buf.Bytes())
	}
	body, err := json.Marshal(request)
	if err != nil {
		return 0, fmt.Errorf("svg: %s score: %w", s.Metric, err)
	}
	tries, pause := s.Tries, s.Pause
	if tries <= 0 {
		tries = 3
	}
	if pause == 0 {
		pause = 500 * time.Millisecond
	}
	pauses := retry.Doubling(pause, max(pause, time.Minute)).Pauses(retry.Jitter(retry.Seed(string(body)), 0))
	for try := 1; ; try++ {
		score, temporary, after, err := s.ask(ctx, body)
		if err == nil {
			return score, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("svg: %s score: %w", s.Metric, context.Cause(ctx))
		}
		wait, again := pauses.Next(after)
		if !again || !temporary || try == tries {
			return 0, fmt.Errorf("svg: %s score: %w after %d tries: %w", s.Metric, ErrScore, try, err)
		}
		if err := clock.Wait(ctx, wait); err != nil {
			return 0, fmt.Errorf("svg: %s score: %w", s.Metric, err)
		}
	}
}

// ask sends one request; temporary reports whether a retry may succeed, and after is the delay
// before it that the service asks for.
func (s *HTTPScorer) ask(ctx context.Context, body []byte) (
	score float64, temporary bool, after time.Duration, err error,
) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, raw, err := transport.Post(ctx, origin.Client(origin.Stay, s.Transport), s.URL, body, maxAnswer)
	if err != nil {
		return 0, !origin.Refused(err), 0, err
	}
	if response.StatusCode != http.StatusOK {
		temporary = response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500
		err = fmt.Errorf("the service answered with status %d", response.StatusCode)
		return 0, temporary, retry.After(response.Header, time.Now()), err
	}
	var answer struct {
		Score *float64 `json:"score"`
	}
	if err := jsontext.Unmarshal(raw, &answer); err != nil {
		return 0, false, 0, errors.New("the answer is not a JSON object with a number as score")
	}
	if answer.Score == nil || !floats.Finite(*answer.Score) {
		return 0, false, 0, errors.New("the answer has no finite score")
	}
	return *answer.Score, false, 0, nil
}
