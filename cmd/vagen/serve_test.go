package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
)

// watched extracts the address that a service logs.
type watched struct {
	address chan string
	text    strings.Builder
}

var addressed = regexp.MustCompile(`address=(\S+)`)

func (w *watched) Write(p []byte) (int, error) {
	if m := addressed.FindSubmatch(p); m != nil {
		w.address <- string(m[1])
	}
	return w.text.Write(p)
}

// serve starts a service of environments and returns its URL and a function that stops it.
func serve(t *testing.T, args ...string) (url string, stop func() (code int, log string)) {
	return launchService(t, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
}

// launchService starts a service.
func launchService(t *testing.T, args ...string) (url string, stop func() (code int, log string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{address: make(chan string, 1)}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, program(), cli.Streams{Out: io.Discard, Err: w}, args)
	}()
	stop = func() (int, string) {
		cancel()
		return <-ended, w.text.String()
	}
	select {
	case address := <-w.address:
		return "http://" + strings.TrimPrefix(address, "http://"), stop
	case code := <-ended:
		t.Fatalf("exit code %d: %s", code, w.text.String())
		return "", nil
	}
}

func TestServedEnvironmentsArePlayed(t *testing.T) {
	url, stop := serve(t, "--env", "frozenlake", "--protocol", "lite,legacy", "render_mode=text", "desc=[SF, FG]")
	out := play(t, "right,down\n", "remote", "base_urls="+url)
	require.Contains(t, out, "The episode ended (solved) after 1 turns. Total reward: 1.02.")

	out = play(t, "Right,Down\n", "remote_legacy", "base_url="+url, "env_name=frozenlake", "prompt_format=free_think")
	require.Contains(t, out, "Total reward: 10.5.", "with legacy rules success gives 10 and the format 0.5")

	prints(t, "remote: 0 problems", "env", "check", "remote", "base_urls="+url, "--seeds", "1")
	got, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Contains(t, string(body), "# TYPE")

	code, log := stop()
	require.Equal(t, cli.OK, code)
	require.Contains(t, log, "shutting down")

	url, stop = serve(t, "--env", "frozenlake", "--protocol", "openenv", "render_mode=text")
	require.Contains(t, succeed(t, "env", "check", "openenv", "base_urls="+url, "--seeds", "1"), "openenv: 0 problems")
	code, _ = stop()
	require.Equal(t, cli.OK, code)
}

func TestServedWithAKey(t *testing.T) {
	file := testkit.File(t, "key", "secret\n")
	t.Setenv("VAGEN_TEST_KEY", "secret")
	for _, flags := range [][]string{{"--api-key-env", "VAGEN_TEST_KEY"}, {"--api-key-file", file}} {
		url, stop := serve(t, append(flags, "--env", "sokoban")...)
		fail(t, "refuses the key", "play", "remote", "base_urls="+url, "retries=0")
		succeed(t, "play", "remote", "base_urls="+url, "token=secret", "render_mode=text")
		code, log := stop()
		require.Equal(t, cli.OK, code)
		require.NotContains(t, log, "secret")
	}
}

func TestClientsOfAServiceSetPathsOnlyIfAllowed(t *testing.T) {
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "a.svg"), `<svg viewBox="0 0 9 9"/>`)
	for _, args := range [][]string{nil, {"--allow-option", "data_dir"}} {
		url, stop := serve(t, append([]string{"--env", "svg"}, args...)...)
		play := []string{"play", "remote", "base_urls=" + url, "retries=0", "data_dir=" + dir}
		if args == nil {
			fail(t, "only the operator of the service may set it", play...)
		} else {
			succeed(t, play...)
		}
		code, _ := stop()
		require.Equal(t, cli.OK, code)
	}
}

func TestServiceRefusesWebPagesOfOtherHosts(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{{nil, http.StatusForbidden}, {[]string{"--allow-host", "evil.example"}, http.StatusOK}} {
		url, stop := serve(t, append([]string{"--env", "sokoban"}, c.args...)...)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sessions", nil)
		require.NoError(t, err)
		r.Host = "evil.example"
		r.Header.Set("Origin", "http://evil.example")
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, c.want, got.StatusCode)
		code, _ := stop()
		require.Equal(t, cli.OK, code)
	}
}

func TestInvalidServiceFlagsAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"--env is missing":                                        {},
		`did you mean "sokoban"?`:                                 {"--env", "sokobn"},
		`"http" is unknown`:                                       {"--env", "sokoban", "--protocol", "http"},
		"serves one environment, not 2":                           {"--env", "sokoban", "--env", "svg"},
		"serves one environment and no other":                     {"--env", "sokoban", "--protocol", "lite,openenv"},
		"already registered":                                      {"--env", "sokoban", "--env", "sokoban", "--protocol", "legacy"},
		`did you mean "dim_room"?`:                                {"--env", "sokoban", "dim_rom=[6, 6]"},
		"--max-sessions: -1, must be":                             {"--env", "sokoban", "--max-sessions", "-1"},
		`did you mean "data_dir"?`:                                {"--env", "svg", "--allow-option", "data_dri"},
		"--max-batch: -1, must be":                                {"--env", "sokoban", "--protocol", "legacy", "--max-batch", "-1"},
		`--image-format: "gif" is neither`:                        {"--env", "sokoban", "--image-format", "gif"},
		"--api-key-env or --api-key-fil":                          {"--env", "sokoban", "--addr", "0.0.0.0:0"},
		"--api-key-env: the environment variable NONE is not set": {"--env", "sokoban", "--api-key-env", "NONE"},
		"are both set":                                            {"--env", "sokoban", "--api-key-env", "A", "--api-key-file", "b"},
	} {
		refuse(t, want, append([]string{"serve", "--log", "error"}, args...)...)
	}
	fail(t, "the API key: ", "serve", "--env", "sokoban", "--api-key-file", "/does/not/exist")
	fail(t, "nowhere", "serve", "--env", "sokoban", "--addr", "nowhere")
}
