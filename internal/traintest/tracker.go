package traintest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// MLflowServer implements the API of an MLflow server as its reference describes it.
type MLflowServer struct {
	Mu      sync.Mutex
	Broken  string // request that fails once
	Status  int    // with which it fails; 0 is 503
	Refuse  bool
	exists  bool // the experiment
	Deleted bool // so are all runs
	Runs    map[string]map[string]any
	Metrics map[string]float64 // newest, by run/name/step
	Latest  int                // newest step of metric a
	Params  map[string]string
	Auth    string
	Calls   []string
}

func (s *MLflowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Auth = r.Header.Get("Authorization")
	what := r.URL.Path[len("/sub/api/2.0/mlflow/"):]
	s.Calls = append(s.Calls, what)
	fail := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error_code":%q,"message":"no"}`, code)
	}
	if s.Broken == what {
		s.Broken = ""
		fail(cmp.Or(s.Status, 503), "TEMPORARILY_UNAVAILABLE")
		return
	}
	if s.Refuse {
		fail(401, "UNAUTHENTICATED")
		return
	}
	var in struct {
		RunID  string `json:"run_id"`
		Name   string `json:"run_name"`
		Status string `json:"status"`
		Params []struct{ Key, Value string }
		Values []struct {
			Key   string
			Value float64
			Step  int64
		} `json:"metrics"`
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			fail(400, "BAD_REQUEST")
			return
		}
	}
	switch what {
	case "experiments/get-by-name":
		if !s.exists {
			fail(404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		fmt.Fprint(w, `{"experiment":{"experiment_id":"7","lifecycle_stage":"active"}}`)
	case "experiments/create":
		s.exists = true
		fmt.Fprint(w, `{"experiment_id":"7"}`)
	case "runs/create":
		id := fmt.Sprintf("r%d", len(s.Runs))
		s.Runs[id] = map[string]any{"name": in.Name}
		fmt.Fprintf(w, `{"run":{"info":{"run_id":%q}}}`, id)
	case "runs/get":
		id := r.URL.Query().Get("run_id")
		if s.Runs[id] == nil {
			fail(404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		stage := "active"
		if s.Deleted {
			stage = "deleted"
		}
		fmt.Fprintf(w, `{"run":{"info":{"lifecycle_stage":%q},"data":{"metrics":[{"key":"a","step":%d}]}}}`, stage, s.Latest)
	case "runs/log-batch":
		if s.Deleted {
			fail(400, "INVALID_PARAMETER_VALUE")
			return
		}
		for _, p := range in.Params {
			s.Params[p.Key] = p.Value
		}
		for _, m := range in.Values {
			key := fmt.Sprintf("%s/%s/%d", in.RunID, m.Key, m.Step)
			if _, twice := s.Metrics[key]; twice {
				s.Calls = append(s.Calls, "twice "+key)
			}
			s.Metrics[key] = m.Value
		}
		fmt.Fprint(w, `{}`)
	case "runs/update":
		s.Runs[in.RunID]["status"] = in.Status
		fmt.Fprint(w, `{}`)
	default:
		fail(404, "ENDPOINT_NOT_FOUND")
	}
}

// NewMLflowServer starts a server, and sets the variables that name it.
func NewMLflowServer(t *testing.T) *MLflowServer {
	s := &MLflowServer{Latest: 2, Runs: map[string]map[string]any{}, Metrics: map[string]float64{},
		Params: map[string]string{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Setenv("MLFLOW_TRACKING_URI", h.URL+"/sub/")
	t.Setenv("MLFLOW_TRACKING_TOKEN", "secret")
	return s
}
