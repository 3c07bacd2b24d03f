package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"vagen/internal/origin"
	"vagen/internal/procgroup"
	"vagen/internal/slots"
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
		room, _ := e.gate.rooms.LoadOrStore(n, make(slots.Slots, n))
		if leave, err = room.(slots.Slots).Enter(ctx); err != nil {
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
		"OPENAI_BASE_URL=" + e.BaseURL, "OPENAI_API_KEY=" + e.Key, "ANTHROPIC_BASE_URL=" + e.URL,
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

// run runs a program with the variables of this process, but for the token's, and cmd.Env. The error has the end of its
// standard error.
func (e *Episode) run(cmd *exec.Cmd) error {
	vars := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return e.options.TokenEnv != "" && strings.HasPrefix(v, e.options.TokenEnv+"=")
	})
	stderr := &procgroup.Tail{Most: shownOutput}
	cmd.Env, cmd.Stderr = append(vars, cmd.Env...), stderr
	if err := procgroup.Run(cmd, time.Second); err != nil {
		return fmt.Errorf("command %q: %w: %s", cmd.Args[0], err, e.hide(stderr.Bytes))
	}
	return nil
}

// hide returns what a program wrote, without the episode's key.
func (e *Episode) hide(text []byte) string { return strings.ReplaceAll(string(text), e.Key, "[key]") }

// client asks agents behind URLs. The context limits the time.
var client = origin.Client(origin.Stay, nil)

// runURL asks a service to play the episode. Its answer may have the score.
func (e *Episode) runURL(ctx context.Context) error {
	body, _ := json.Marshal(e) // as for environ
	answer, raw, err := transport.Post(ctx, client, e.options.URL, body, rewardOutput)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", transport.Cause(err)) // without the address, which may have a key
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
