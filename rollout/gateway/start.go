package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"vagen/internal/origin"
	"vagen/internal/procgroup"
	"vagen/internal/transport"
)

// shownOutput is how much of a program's standard error an error shows, in bytes.
const shownOutput = 2 << 10

// start starts the agent of an episode, as soon as there is room for it.
func (e *Episode) start(ctx context.Context) (err error) {
	if e.gate == nil {
		if e.gate, err = e.opener.gateway(&e.options); err != nil {
			return err
		}
	}
	if err := e.gate.add(e); err != nil {
		return err
	}
	run := e.agent()
	if run == nil {
		return nil // the episode waits for a client
	}
	leave := func() {}
	if n := e.options.Processes; n > 0 {
		if leave, err = e.gate.enter(ctx, n, n); err != nil {
			return err
		}
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop, e.claimed = cancel, true
	e.running.Go(func() {
		defer leave()
		defer cancel()
		err := errors.New("it ended its goroutine")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("it panicked: %v", r)
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrAgent, err)
			}
			e.end(err)
		}()
		err = run(inner)
	})
	return nil
}

// agent returns the function that runs the agent, nil if a client comes from outside.
func (e *Episode) agent() func(context.Context) error {
	switch {
	case len(e.options.Command) > 0:
		return e.runCommand
	case e.options.URL != "":
		return e.runURL
	case e.gate.o.Agent != nil && !e.options.Wait:
		return e.runFunc
	}
	return nil
}

// runFunc runs an agent of this program.
func (e *Episode) runFunc(ctx context.Context) error {
	s, err := e.gate.o.Agent(ctx, e)
	if err != nil || s == nil {
		return err
	}
	return e.pay(s.result())
}

// environ returns what a command learns about its episode: the variables that the SDKs of OpenAI and
// Anthropic read, and our own.
func (e *Episode) environ() []string {
	task, _ := json.Marshal(e.Task) // Validate has checked it
	return []string{
		"OPENAI_BASE_URL=" + e.URL + "/v1", "OPENAI_API_KEY=" + e.Key, "ANTHROPIC_BASE_URL=" + e.URL,
		"ANTHROPIC_AUTH_TOKEN=" + e.Key, "ANTHROPIC_API_KEY=" + e.Key,
		"VAGEN_EPISODE_URL=" + e.URL, "VAGEN_EPISODE_KEY=" + e.Key, "VAGEN_TASK=" + string(task),
		"VAGEN_SEED=" + strconv.FormatInt(e.Seed, 10), "VAGEN_GROUP=" + strconv.Itoa(e.Group),
	}
}

// runCommand runs the agent as a program. Its end ends the episode; a status other than 0 is a
// failure.
func (e *Episode) runCommand(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, e.options.Command[0], e.options.Command[1:]...)
	cmd.Env = e.environ()
	return e.run(cmd)
}

// run runs a program with the variables of this process, but for the token's, and cmd.Env. Then it ends the programs
// that the program has left running. These may have its output open, which is no failure. The error has the end of its
// standard error.
func (e *Episode) run(cmd *exec.Cmd) error {
	vars := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return e.options.TokenEnv != "" && strings.HasPrefix(v, e.options.TokenEnv+"=")
	})
	cmd.Env = append(vars, cmd.Env...)
	stderr := &tail{most: shownOutput}
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
	procgroup.KillOnCancel(cmd)
	err := cmd.Run()
	procgroup.Kill(cmd)
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // its status is 0
		return nil
	}
	return fmt.Errorf("command %q: %w: %s", cmd.Args[0], err, e.hide(stderr.kept))
}

// hide returns what a program wrote, without the episode's key.
func (e *Episode) hide(text []byte) string { return strings.ReplaceAll(string(text), e.Key, "[key]") }

// client asks agents behind URLs. The context limits the time.
var client = origin.Client(origin.Stay, nil)

// runURL asks a service to play the episode. Its answer may have the score.
func (e *Episode) runURL(ctx context.Context) error {
	body, _ := json.Marshal(e.describe()) // as for environ
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.options.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("url: %w", transport.Cause(err)) // without the address, which may have a key
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, rewardOutput))
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= 300:
		return fmt.Errorf("url: the service answered %s: %.200q", answer.Status, e.hide(raw))
	case len(bytes.TrimSpace(raw)) == 0:
		return nil
	}
	var s result
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("url: the answer must be empty or a JSON object with a reward: %w", err)
	}
	if err := e.pay(s); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	return nil
}

// describe is the episode as its agent is told about it.
func (e *Episode) describe() map[string]any {
	return map[string]any{
		"id": e.id, "url": e.URL, "base_url": e.URL + "/v1", "key": e.Key, "task": e.Task, "seed": e.Seed,
		"group": e.Group, "index": e.Index,
	}
}
