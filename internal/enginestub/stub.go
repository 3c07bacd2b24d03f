// Package enginestub is a server with the protocols of vLLM and SGLang for tests. It
// behaves as the recorded servers do, with weights of a test's own and injected faults.
package enginestub

import (
	"encoding/json"
	"fmt"
	"image"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Job is a response to be generated.
type Job struct {
	Weights     string // folder of all weights, "" for those of the start
	Adapter     string // folder of the adapter, "" for none
	Tokens      []int32
	Images      []image.Image
	Temperature float64
	TopK        int
	Seed        int64
	Max         int
	Stop        []int32
}

// Model generates the responses of a stub. Implementations must allow concurrent calls.
type Model interface {
	// Expand repeats image placeholders as the model needs, and returns their offsets and
	// lengths.
	Expand(tokens []int32, images []image.Image) (expanded []int32, places [][2]int, err error)
	// Load checks a folder of weights or of an adapter.
	Load(path string) error
	// Generate returns a response and its log-probs. Tokens of the job are expanded.
	Generate(j Job) (tokens []int32, logProbs []float32, err error)
	// Tokenize returns the tokens of a conversation that a user opens with a text.
	Tokenize(text string) []int32
	// Decode returns the text of tokens.
	Decode(tokens []int32) string
}

// Scorer is a Model that can score prompts.
type Scorer interface {
	// Score returns the log-probs of a job's tokens, and with top above 0 the likeliest tokens in the place of each,
	// at temperature 1. Those of the first token are not read.
	Score(j Job, top int) (Scores, error)
}

// Scores are the log-probs of a prompt: of its tokens, and of the likeliest ones in the place of each.
type Scores struct {
	LogProbs    []float32
	Top         [][]int32
	TopLogProbs [][]float32
}

// Faults are the probabilities of faults of a request for a response.
type Faults struct {
	Error, Reset, Abort, Hang, Garbage float64
	// Hangs is the number of requests that may hang; 0 is no limit.
	Hangs int
	// Forget is the probability that the server restarts before a request: it loses its
	// adapters and has the weights of its start again.
	Forget float64
	// Mix is the probability that the second half of a response has another version.
	Mix float64
}

// Stub is a server. Its exported fields must be set before the first request.
type Stub struct {
	Model  Model
	SGLang bool
	Name   string // of the base model
	Vocab  int
	Length int // longest context
	MaxTop int // likeliest tokens that may be asked for, as --max-logprobs; 0 is no limit
	Key    string
	Seed   uint64 // of the faults

	mu       sync.Mutex // held by a request, but while its response is generated or hangs
	rng      *rand.Rand
	faults   Faults
	down     bool
	weights  string
	version  string
	paused   bool
	adapters map[string]string

	calls   map[string]int
	busy    int
	most    int
	aborted map[string]chan struct{}
}

// Calls returns the number of requests by path.
func (s *Stub) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// MostInFlight returns the largest number of responses in progress at a time.
func (s *Stub) MostInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// SetFaults starts to inject faults.
func (s *Stub) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// SetDown makes every call fail, or ends that.
func (s *Stub) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Restart makes the server lose its adapters; it has the weights of its start again.
func (s *Stub) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

func (s *Stub) restart() { s.weights, s.version, s.adapters = "", "default", map[string]string{} }

// Version returns the version of the weights.
func (s *Stub) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// SetVersion changes the version of the weights, as another program would.
func (s *Stub) SetVersion(v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.version = v
}

// Adapters returns the names of the loaded adapters.
func (s *Stub) Adapters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.adapters))
}

func (s *Stub) init() {
	if s.rng == nil {
		s.rng = rand.New(rand.NewPCG(s.Seed, 1))
		s.restart()
		s.calls, s.aborted = map[string]int{}, map[string]chan struct{}{}
	}
}

// unlocked calls f without the mutex.
func (s *Stub) unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// ServeHTTP implements http.Handler.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.calls[r.URL.Path]++
	if s.down {
		refuse(w, http.StatusServiceUnavailable, "down")
		return
	}
	if s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key {
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	var q wanted
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil && err != io.EOF {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if s.SGLang {
		s.sglang(w, r, &q)
		return
	}
	s.vllm(w, r, &q)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	answer(w, map[string]any{"error": map[string]any{"message": message, "code": status}})
}

func answer(w http.ResponseWriter, v any) { json.NewEncoder(w).Encode(v) }

func (s *Stub) vllm(w http.ResponseWriter, r *http.Request, q *wanted) {
	switch r.URL.Path {
	case "/health":
	case "/v1/models":
		list := []map[string]any{{"id": s.Name, "parent": nil, "max_model_len": s.Length}}
		for name := range s.adapters {
			list = append(list, map[string]any{"id": name, "parent": s.Name, "max_model_len": nil})
		}
		answer(w, map[string]any{"data": list})
	case "/weight_info":
		answer(w, map[string]string{"weight_version": s.version})
	case "/tokenize":
		answer(w, map[string]any{"tokens": s.Model.Tokenize(q.Messages[0].Content)})
	case "/inference/v1/generate":
		s.generate(w, r, q)
	case "/abort_requests":
		for _, id := range q.IDs {
			s.stop(strings.TrimPrefix(id, "generate-tokens-"))
		}
		answer(w, map[string]any{"status": "aborted"})
	case "/v1/load_lora_adapter":
		s.loadAdapter(w, q.Name, q.LoRA)
	case "/v1/unload_lora_adapter":
		_, ok := s.adapters[q.Name]
		delete(s.adapters, q.Name)
		if !ok {
			refuse(w, http.StatusNotFound, "The lora adapter cannot be found.")
		}
	case "/pause", "/resume":
		s.paused = r.URL.Path == "/pause"
	case "/collective_rpc":
		if err := s.Model.Load(q.Args.Path); err != nil || !s.paused {
			refuse(w, http.StatusInternalServerError, fmt.Sprintf("paused %v: %v", s.paused, err))
			return
		}
		s.weights, s.version = q.Args.Path, "unnamed"
	case "/reset_prefix_cache":
	case "/update_weight_version":
		s.version = q.Renamed
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

func (s *Stub) loadAdapter(w http.ResponseWriter, name, path string) bool {
	if err := s.Model.Load(path); err != nil {
		refuse(w, http.StatusNotFound, "Loading lora "+name+" failed: "+err.Error())
		return false
	}
	if _, ok := s.adapters[name]; ok {
		refuse(w, http.StatusBadRequest, "The lora adapter '"+name+"' has already been loaded.")
		return false
	}
	s.adapters[name] = path
	return true
}

// stop aborts a request.
func (s *Stub) stop(id string) {
	if c, ok := s.aborted[id]; ok {
		close(c)
		delete(s.aborted, id)
	}
}

func (s *Stub) sglang(w http.ResponseWriter, r *http.Request, q *wanted) {
	switch r.URL.Path {
	case "/health", "/pause_generation", "/continue_generation":
	case "/model_info":
		answer(w, map[string]string{"model_path": s.Name, "weight_version": s.version})
	case "/generate":
		s.generate(w, r, q)
	case "/abort_request":
		s.stop(q.RID)
	case "/load_lora_adapter":
		if s.loadAdapter(w, q.Name, q.LoRA) {
			answer(w, map[string]any{"success": true})
		}
	case "/unload_lora_adapter":
		delete(s.adapters, q.Name)
		answer(w, map[string]any{"success": true})
	case "/update_weights_from_disk":
		if err := s.Model.Load(q.Folder); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		s.weights, s.version = q.Folder, q.Version
		answer(w, map[string]any{"success": true, "message": "Succeeded to update model weights."})
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}
