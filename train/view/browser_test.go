package view_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tab is a page in a headless browser. It collects what the console says and the
// requests that the page makes.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// complaints are errors of the console, exceptions, refused resources and dialogs.
	complaints []string
	requests   []string
}

// browserPath finds the browser. Without one the test is skipped, or fails where
// VAGEN_REQUIRE_BROWSER is set.
func browserPath(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("VAGEN_REQUIRE_BROWSER") != "" {
		t.Fatal("VAGEN_REQUIRE_BROWSER is set, and there is no chromium or chrome")
	}
	t.Skip("there is no chromium or chrome to show the page in")
	return ""
}

// browser is shared by the tests; each opens a tab of its own.
var browser struct {
	start  sync.Once
	ctx    context.Context
	cancel func()
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.ctx != nil {
		_ = chromedp.Cancel(browser.ctx)
		browser.cancel()
	}
	os.Exit(code)
}

// browse opens a page of a size, in the light or dark theme of the system.
func browse(t *testing.T, width, height int64, theme string) *tab {
	path := browserPath(t)
	browser.start.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		browser.ctx, _ = chromedp.NewContext(ctx)
		browser.cancel = cancel
		browser.err = chromedp.Do(browser.ctx)
	})
	require.NoError(t, browser.err)
	ctx, cancel := chromedp.NewContext(browser.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.event))
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, page.Enable, page.EnableParams{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	b.do(chromedp.EmulateViewport(width, height))
	return b
}

func call[P, R any](b *tab, cmd cdp.Command[P, R], params P) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, cmd, params)
	require.NoError(b.t, err)
}

func (b *tab) event(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complain := func(format string, args ...any) { b.complaints = append(b.complaints, fmt.Sprintf(format, args...)) }
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		complain("exception: %s", describe(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			complain("console: %s", e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			complain("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		complain("dialog: %s", e.Message)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func describe(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Text + " " + d.Exception.Description
	}
	return d.Text
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...), "the page says %v", b.said())
}

func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.complaints...)
}

// quiet requires that the console is silent.
func (b *tab) quiet() {
	b.t.Helper()
	require.Empty(b.t, b.said())
}

// open goes to an address and waits for an element.
func (b *tab) open(url, selector string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
	b.until("document.querySelector(" + strconv.Quote(selector) + ")")
}

// follow goes to an address within the page and waits for an element that was not there before.
func (b *tab) follow(hash, selector string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		for (const e of document.querySelectorAll(%q)) e.remove();
		location.hash = %q;
		return true })()`, selector, hash))
	b.until("document.querySelector(" + strconv.Quote(selector) + ")")
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return v
}

// waitLimit bounds the wait for what never appears.
const waitLimit = time.Minute

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLimit)
	defer cancel()
	for {
		if eval[bool](b, "!!("+expression+")") {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			require.Fail(b.t, "waited in vain", "for %s; the console has %v, and the page shows\n%s", expression, b.said(),
				eval[string](b, "document.body.innerText.slice(0, 1500)"))
		}
	}
}

// set gives a field a value, as a user does.
func (b *tab) set(selector, value string) {
	b.t.Helper()
	b.until("document.querySelector(" + strconv.Quote(selector) + ")")
	eval[bool](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); return true })()`, selector, value))
}

// hurry shortens the times that pages opened after it wait before they ask again.
func (b *tab) hurry() {
	b.t.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `const wait = window.setTimeout;
			window.setTimeout = (f, ms, ...args) => wait(f, ms >= 500 ? 50 : ms, ...args)`,
	})
}

// text is the text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector))
}

// keys presses keys one after the other.
func (b *tab) keys(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// shoot writes a picture of the page to the folder VAGEN_SHOTS, if it is set.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("VAGEN_SHOTS")
	if dir == "" {
		return
	}
	raw, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o644))
}
