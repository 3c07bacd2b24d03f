package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
)

// firstLine hands over the first line that is written.
type firstLine struct {
	mu    sync.Mutex
	text  strings.Builder
	found chan string
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had := strings.Contains(f.text.String(), "\n")
	f.text.Write(p)
	if line, _, ok := strings.Cut(f.text.String(), "\n"); ok && !had {
		f.found <- line
	}
	return len(p), nil
}

// TestTheKeyOfAViewedRunComesFromAFlagTheEnvironmentOrAFile, and from one of them.
func TestTheKeyOfAViewedRunComesFromAFlagTheEnvironmentOrAFile(t *testing.T) {
	dir := filepath.Dir(testkit.File(t, "metrics.jsonl", ""))
	key, empty := testkit.File(t, "key", " k\n"), testkit.File(t, "empty", "\n")
	t.Setenv("VIEW_KEY", "k")
	for _, args := range [][]string{{"--key", "k"}, {"--key-env", "VIEW_KEY"}, {"--key-file", key}} {
		ctx, stop := context.WithCancel(t.Context())
		said := &firstLine{found: make(chan string, 1)}
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Main(ctx, program(), cli.Streams{In: strings.NewReader(""), Out: said, Err: io.Discard},
				append([]string{"view", dir}, args...))
		}()
		require.Contains(t, <-said.found, "?key=k", args)
		stop()
		<-ended
	}
	for want, args := range map[string][]string{
		"--key is set beside --key-env or --key-file: use one of them": {"--key", "k", "--key-file", key},
		"--key-env and --key-file are both set: use one of them":       {"--key-env", "VIEW_KEY", "--key-file", key},
		"the key in " + empty + " is empty":                            {"--key-file", empty},
		"no such file":                                                 {"--key-file", empty + "-none"},
	} {
		stops(t, want, append([]string{"view", dir}, args...)...)
	}
}

// TestAViewedRunIsTheOneThatWasTrained trains a tiny model with all records on, and asks
// the server of vagen view for its episodes, their tokens and their images.
func TestAViewedRunIsTheOneThatWasTrained(t *testing.T) {
	config, out := setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.total_training_steps=1", "trainer.save_freq=1",
		"rollout_manager.max_turns=2", "env.config.render_mode=vision", "env.config.tile_size=14",
		"trainer.rollout_data_dir="+filepath.Join(out, "rollouts"), "trainer.rollout_data_scores=true",
		"trainer.log_image.enable=true")
	ctx, stop := context.WithCancel(t.Context())
	said := &firstLine{found: make(chan string, 1)}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, program(), cli.Streams{In: strings.NewReader(""), Out: said, Err: io.Discard},
			[]string{"view", out, "--key", "k"})
	}()
	address, query, ok := strings.Cut(<-said.found, "?")
	require.True(t, ok)
	require.Equal(t, "key=k", query)
	get := func(path string) string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		require.NoError(t, err)
		request.Header.Set("X-API-Key", "k")
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode, string(raw))
		return string(raw)
	}
	require.Contains(t, get("api/runs"), `"steps":1,`)
	require.Contains(t, get("api/runs"), `"problems":[]`)
	require.Contains(t, get("api/runs/r0/episodes"), `"key":"train/1/0-0"`)
	episode := get("api/runs/r0/episode?key=train/1/0-0")
	require.Contains(t, episode, `"texts":["\u003c|im_start|\u003e"`)
	require.Contains(t, episode, `"problems":[]`)
	require.Contains(t, episode, `"log_ratio":[`)
	image := regexp.MustCompile(`"images":\["/([^"]+)"`).FindStringSubmatch(episode)
	require.NotNil(t, image)
	require.Contains(t, get(strings.ReplaceAll(image[1], `\u0026`, "&")), "\x89PNG")
	require.Contains(t, get("api/runs/r0/credit?estimator=bi_level_gae&key=train/1/0-0"), `"problem":""`)
	stop()
	require.Equal(t, cli.OK, <-ended)

	refuse(t, "not the folder of a run", "view", filepath.Join(out, "nowhere"))
	refuse(t, "a key is needed", "view", out, "--addr", "0.0.0.0:0")
}
