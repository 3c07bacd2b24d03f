package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"vagen/policy"
)

// protocol is what a kind of server speaks.
type protocol interface {
	// describe returns what a server serves.
	describe(ctx context.Context, base string) (*description, error)
	// tokens returns the server's tokens of a conversation that a user opens with a text;
	// nil if it cannot tell.
	tokens(ctx context.Context, base, model, text string, template map[string]any) ([]int32, error)
	// generate requests one response.
	generate(ctx context.Context, base string, r *request) (*response, error)
	// abort stops a request on its server.
	abort(ctx context.Context, base, id string) error
	// loadAdapter loads a folder under a new name, unloadAdapter removes it.
	loadAdapter(ctx context.Context, base, name, path string) error
	unloadAdapter(ctx context.Context, base, name string) error
	// reload replaces all weights by those of a folder and names them.
	reload(ctx context.Context, base, path, version string) error
}

// description is what a server says about itself.
type description struct {
	model    string   // name of the base model
	version  string   // of the base weights
	length   int      // longest context; 0 is unknown
	adapters []string // names that are loaded; nil if the server cannot list them
}

// request asks for one response.
type request struct {
	id     string
	model  string // base model, or the adapter's name
	lora   bool   // model is an adapter
	tokens []int32
	urls   []string // images, as data URLs
	stop   []int32
	seed   uint64
	max    int
	policy.Sampling

	// What the answer is compared with.
	prompt []int32       // tokens with all placeholders
	places []placeholder // of the images in prompt
	vocab  int

	scoring *scoring // log-probs of the prompt, for Fleet.Score; nil asks for none
}

// request returns a request of the fleet's model or adapter about tokens with their images.
func (f *Fleet) request(tokens []int32, pics []picture) (*request, error) {
	short, places, err := f.codec.collapse(tokens, pics)
	if err != nil {
		return nil, err
	}
	r := &request{model: f.model, tokens: short, prompt: tokens, places: places, vocab: f.codec.text.Vocab,
		stop: f.codec.stops()}
	if f.current != nil && f.current.Adapter {
		r.model, r.lora = f.current.Name, true
	}
	for _, pic := range pics {
		r.urls = append(r.urls, pic.url)
	}
	return r, nil
}

// response is an answer in the terms of this package.
type response struct {
	tokens   []int32
	logProbs []float32
	stopped  bool // at a stop token; else the limit was reached
	versions []span

	model   string        // that the server names; "" if it names none
	text    string        // decoded by the server; "" if it is not
	prompt  []int32       // that the server read; nil if it returns only the number
	read    int           // number of tokens that the server read
	places  []placeholder // of images; nil if the server does not return them
	aborted bool
	scored  *policy.Scores // of request.scoring; 0 at other tokens
}

// addLogProb adds the next log-prob, which a server returns with its token.
func (a *response) addLogProb(token *int32, logProb *float64) error {
	i := len(a.logProbs)
	if token == nil || logProb == nil || i >= len(a.tokens) || *token != a.tokens[i] {
		return fmt.Errorf("log-prob %d is not that of token %d of the response", i, i)
	}
	a.logProbs = append(a.logProbs, float32(*logProb))
	return nil
}

// span is a part of a response that one version of the weights wrote.
type span struct {
	version    string
	start, end int
}

// checkPrompt reports whether the server read the prompt that was sent.
func (r *request) checkPrompt(a *response) error {
	if at := difference(a.prompt, r.prompt); a.prompt != nil && at >= 0 {
		return fmt.Errorf("it has %d tokens, %d were meant, and they differ from token %d on%s", len(a.prompt), len(r.prompt),
			at, r.hint())
	}
	if a.read != len(r.prompt) {
		return fmt.Errorf("it has %d tokens, %d were meant%s", a.read, len(r.prompt), r.hint())
	}
	if a.places != nil && !slices.Equal(a.places, r.places) {
		return fmt.Errorf("its images are at (offset, length) %v, must be at %v%s", a.places, r.places, r.hint())
	}
	return nil
}

func (r *request) hint() string {
	if len(r.places) == 0 {
		return ""
	}
	return ": image sizes or the image processor's settings (min_pixels, max_pixels) differ between the server's folder and the learner's"
}

// check returns an error if a response's fields contradict each other.
func (r *request) check(a *response) error {
	switch n := len(a.tokens); {
	case n == 0 && !a.aborted:
		return fmt.Errorf("a response without tokens")
	case len(a.logProbs) != n:
		return fmt.Errorf("%d log-probs for %d tokens", len(a.logProbs), n)
	case n > r.max:
		return fmt.Errorf("%d tokens, at most %d were requested", n, r.max)
	case r.model != a.model && a.model != "":
		return fmt.Errorf("the response is from model %q, requested was %q", a.model, r.model)
	}
	for i, id := range a.tokens {
		if id < 0 || int(id) >= r.vocab {
			return fmt.Errorf("token %d is %d, must be in [0, %d)", i, id, r.vocab)
		}
		if x := a.logProbs[i]; !logProb(float64(x)) {
			return fmt.Errorf("the log-prob of token %d is %v, must be finite and not positive", i, x)
		}
	}
	if last := len(a.tokens) - 1; a.stopped && !a.aborted && !slices.Contains(r.stop, a.tokens[last]) {
		return fmt.Errorf("the response stopped at token %d, which is not one of the stop tokens %v", a.tokens[last], r.stop)
	}
	at := 0
	for _, s := range a.versions {
		if s.start != at || s.end < s.start {
			return fmt.Errorf("the versions of the weights, %v, do not cover the response", a.versions)
		}
		at = s.end
	}
	if len(a.versions) > 0 && at != len(a.tokens) {
		return fmt.Errorf("the versions of the weights, %v, do not cover %d tokens", a.versions, len(a.tokens))
	}
	return nil
}

// foreign counts the tokens that other weights than those of a version wrote. Without any
// information all are.
func (a *response) foreign(version string) int {
	n := len(a.tokens)
	for _, s := range a.versions {
		if s.version == version {
			n -= s.end - s.start
		}
	}
	return n
}

// noRoom reports whether a refusal says that the prompt is longer than the context.
func noRoom(detail string) bool {
	detail = strings.ToLower(detail)
	words := []string{"maximum model length", "context length", "max_model_len"}
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(detail, w) })
}
