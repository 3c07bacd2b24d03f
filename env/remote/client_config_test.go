package remote

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/testkit"
)

// taken returns the options that a client was made with.
func taken(t testing.TB, config string) ClientOptions {
	t.Helper()
	e, err := FromConfig(envtest.Options(config))
	require.NoError(t, err)
	send := e.(*Client).send
	for _, h := range send.session.Hosts() {
		send.o.URLs = append(send.o.URLs, h.Name())
	}
	return send.o
}

func TestNamedOptionsAreThoseOfTheOriginal(t *testing.T) {
	o := taken(t, "base_urls: http://a")
	want := DefaultClientOptions()
	assert.Equal(t, []any{want.Timeout, want.Retries, want.Backoff, want.MaxDelay, want.JitterMin, want.JitterRange,
		want.FailoverAfter},
		[]any{o.Timeout, o.Retries, o.Backoff, o.MaxDelay, o.JitterMin, o.JitterRange, o.FailoverAfter})
	o = taken(t, `base_urls: [' http://a ', '', http://b/], timeout: 1.5, retries: 2, backoff: 0.25, max_delay: 3,
		token: k, backoff_jitter_min: 0, backoff_jitter_range: 1, failover_after_failures: 0, log_retries: false,
		compat: python, max_response_mb: 0.5, max_images: 3, max_image_pixels: 100, jitter_seed: 7,
		size: 4.0, p: 0.8, desc: [SF, 2.0], inner: {'n': 5.0}`)
	assert.Equal(t, []string{"http://a", "http://b"}, o.URLs)
	assert.Equal(t, 1500*time.Millisecond, o.Timeout)
	assert.Equal(t, []any{2, 250 * time.Millisecond, 3 * time.Second, "k", 0.0, 1.0, 0, false, true},
		[]any{o.Retries, o.Backoff, o.MaxDelay, o.Token, o.JitterMin, o.JitterRange, o.FailoverAfter, o.LogRetries, o.Python})
	assert.Equal(t, Limits{Body: 1 << 19, Parts: 4, Pixels: 100}, o.Limits)
	assert.Equal(t, map[string]any{"size": int64(4), "p": 0.8, "desc": []any{"SF", int64(2)},
		"inner": map[string]any{"n": int64(5)}}, o.Config,
		"all else goes to the environment, whole numbers as integers")
}

func TestURLsComeAsListTextOrFile(t *testing.T) {
	file := testkit.File(t, "urls.txt", "# services\nhttp://a\n\n  http://b/ ; http://c\n")
	for _, config := range []string{
		"base_urls: [http://a, http://b, http://c]", `base_urls: "http://a;http://b\n#http://x\nhttp://c"`,
		"url_file: " + file, "base_urls: '', url_file: " + file, "base_urls: [], url_file: " + file,
		"base_urls: null, url_file: " + file,
	} {
		assert.Equal(t, []string{"http://a", "http://b", "http://c"}, taken(t, config).URLs, "%v", config)
	}
	assert.Equal(t, []string{"http://a"}, taken(t, "base_url: http://a, url_file: absent").URLs)
	e, err := FromConfig(map[string]any{"base_urls": []string{"http://a", "http://b"}})
	require.NoError(t, err)
	assert.Len(t, e.(*Client).send.session.Hosts(), 2)
}

func TestWrongOptionsAreNamed(t *testing.T) {
	empty := testkit.File(t, "empty.txt", "# none\n")
	long := testkit.File(t, "long.txt", bytes.Repeat([]byte("http://a\n"), 1<<17))
	for _, c := range []struct{ config, says string }{
		{"", "base_urls: none is given"},
		{"base_urls: 5", `option "base_urls": bad option: 5 (uint64), must be a list`},
		{"base_urls: [http://a, 5]", `option "base_urls[1]": bad option: 5 (uint64), must be a text`},
		{"base_urls: 'localhost:8000'", "not of the form http://host:port"},
		{"base_urls: 'http://a?x=1'", "ends in a query"},
		{"base_urls: 'http://u:secret@a b'", "base_urls: one is not a URL"},
		{"url_file: /does/not/exist", `option "url_file"`},
		{"url_file: " + empty, "holds no URL"},
		{"url_file: " + long, "at most 1048576 bytes are allowed"},
		{"base_urls: http://a, timeout: long", `option "timeout"`},
		{"base_urls: http://a, timeout: 0", "timeout: 0s, must be at least 1ns"},
		{"base_urls: http://a, retries: -1, max_delay: -1", "remote: retries: -1, must be at least 0"},
		{"base_urls: http://a, max_images: -1", "Limits.Parts: 0, must be at least 1"},
		{"base_urls: http://a, compat: ruby", `found "ruby", must be python`},
		{"base_urls: http://a, compat: python, resend: true", "resend: not allowed with compat: python"},
	} {
		_, err := FromConfig(envtest.Options(c.config))
		require.Error(t, err, "%v", c.config)
		assert.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), "secret")
	}
	_, err := LegacyFromConfig(envtest.Options("base_urls: http://a"))
	testkit.Error(t, err, env.ErrOption, `"env_name"`)
	_, err = LegacyFromConfig(envtest.Options("base_urls: http://a, env_name: 5"))
	assert.ErrorContains(t, err, "text is needed, found 5 (uint64)")
}

// Clients of one factory don't wait in step, and two processes with the same
// configuration do the same.
func TestJitterIsSeededPerClient(t *testing.T) {
	draw := func(seed int) [][2]float64 {
		f := Factory(DefaultClientOptions())
		var all [][2]float64
		for range 3 {
			e, err := f(map[string]any{"base_urls": "http://a", "jitter_seed": seed})
			require.NoError(t, err)
			u := e.(*Client).send.o.Jitter
			all = append(all, [2]float64{u(), u()})
		}
		return all
	}
	first := draw(1)
	assert.Equal(t, first, draw(1))
	assert.NotEqual(t, first, draw(2))
	assert.NotEqual(t, first[0], first[1])
}

func TestFactoryDoesNotKeepTheConfiguration(t *testing.T) {
	o := DefaultClientOptions()
	o.URLs, o.Config = []string{"http://a"}, envtest.Options("size: 4")
	config := envtest.Options("size: 5, token: k")
	e, err := Factory(o)(config)
	require.NoError(t, err)
	assert.Equal(t, envtest.Options("size: 5"), e.(*Client).send.o.Config, "named options win")
	assert.Equal(t, envtest.Options("size: 4"), o.Config)
	assert.Equal(t, envtest.Options("size: 5, token: k"), config)
	assert.Equal(t, envtest.Options("a: 1, b: 3"), received(t, envtest.Options("a: 1, b: 2"), envtest.Options("b: 3")))
	assert.Equal(t, envtest.Options("b: 3"), received(t, nil, envtest.Options("b: 3")), "no defaults are none")
}

// received returns what a factory gets behind WithDefaults.
func received(t *testing.T, defaults, config map[string]any) (got map[string]any) {
	t.Helper()
	_, err := WithDefaults(func(c map[string]any) (env.Env, error) { got = c; return nil, nil }, defaults)(config)
	require.NoError(t, err)
	return got
}
