package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/cmd/vagen/internal/termimage"
	"vagen/env"
	"vagen/internal/cli"
	"vagen/internal/term"
)

func playCommand() *cli.Command {
	return &cli.Command{
		Name: "play", Args: "NAME [key=value …]", Min: 1, Max: -1,
		About: "Play an environment in the terminal.",
		Help: `Type an answer, such as Up,Left; it is inserted into the environment's response format.
For an environment on a service the format is taken from its system prompt; --format
selects another one, and --wrap sets a text of your own, in which {} is replaced by the
answer. A line with a closing tag is sent unchanged. An empty line shows the system
prompt; the end of the input ends the episode.

Images are shown in the terminal if it supports them (kitty, iTerm2), otherwise
they are written to files.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			var p player
			f.Int64Var(&p.seed, "seed", 0, "seed of the level")
			f.IntVar(&p.turns, "turns", 0, "maximum turns; 0 is no limit")
			f.StringVar(&p.wrap, "wrap", "", "`text` to send, in which {} is replaced by the answer")
			f.StringVar(&p.format, "format", "", formatUsage)
			inline := f.String("inline", "auto", "`protocol` to show images: auto, kitty, iterm2 or none")
			f.StringVar(&p.folder, "images", "", "`folder` for image files; empty uses a temporary folder")
			return func(ctx context.Context, c *cli.Call) error {
				if err := p.setProtocol(c, *inline); err != nil {
					return err
				}
				e, _, err := newEnv(c.Args)
				if err != nil {
					return err
				}
				defer e.Close()
				if p.style, err = styleOf(ctx, e, p.format, p.seed); err != nil {
					return err
				}
				p.c, p.env, p.lines = c, e, readLines(ctx, c.In)
				return p.play(ctx)
			}
		},
	}
}

// player plays an episode with answers typed by a user.
type player struct {
	c        *cli.Call
	env      env.Env
	lines    <-chan string // lines of the input
	seed     int64
	turns    int
	wrap     string
	format   string
	style    style
	protocol termimage.Protocol
	folder   string
	pictures int // shown so far
}

// setProtocol checks the flags and selects how images are shown.
func (p *player) setProtocol(c *cli.Call, inline string) error {
	if p.turns < 0 {
		return cli.Usagef("--turns is %d, must not be negative", p.turns)
	}
	if p.wrap != "" && !strings.Contains(p.wrap, "{}") {
		return cli.Usagef("--wrap is %q, must contain {}", p.wrap)
	}
	if p.wrap != "" {
		if err := c.Idle("--wrap says what is sent", "format"); err != nil {
			return err
		}
	}
	p.protocol = termimage.Protocol(inline)
	switch {
	case inline == "auto" && (p.folder != "" || !term.IsTerminal(c.Out)):
		p.protocol = termimage.None
	case inline == "auto":
		p.protocol = termimage.Detect()
	case !slices.Contains(termimage.Protocols(), p.protocol):
		return cli.Usagef("--inline is %q, must be auto, kitty, iterm2 or none", inline)
	case p.protocol != termimage.None:
		return c.Idle("--inline "+inline+" shows images in the terminal", "images")
	}
	return nil
}

// play plays one episode.
func (p *player) play(ctx context.Context) error {
	o, err := p.env.Reset(ctx, p.seed)
	if err != nil {
		return err
	}
	if err := p.show(o); err != nil {
		return err
	}
	total := 0.0
	for turn := 1; p.turns == 0 || turn <= p.turns; turn++ {
		line, err := p.ask(ctx)
		if errors.Is(err, io.EOF) {
			_, err := fmt.Fprintf(p.c.Out, "\nThe input ended after %d turns. Total reward: %g.\n", turn-1, total)
			return err
		}
		if err != nil {
			return err
		}
		out, err := p.env.Step(ctx, p.response(line))
		if err != nil {
			return err
		}
		total += out.Reward.Sum()
		if err := p.showOutcome(out); err != nil {
			return err
		}
		if out.Done {
			result := "lost"
			if out.Success {
				result = "solved"
			}
			_, err := fmt.Fprintf(p.c.Out, "\nThe episode ended (%s) after %d turns. Total reward: %g.\n", result, turn, total)
			return err
		}
	}
	_, err = fmt.Fprintf(p.c.Out, "\nThe limit of %d turns is reached. Total reward: %g.\n", p.turns, total)
	return err
}

// ask reads an answer. Empty lines show the system prompt.
func (p *player) ask(ctx context.Context) (string, error) {
	for {
		fmt.Fprint(p.c.Out, "\n> ")
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case line, ok := <-p.lines:
			if !ok {
				return "", io.EOF
			}
			if line != "" {
				return line, nil
			}
		}
		system, err := p.env.System(ctx)
		if err != nil {
			return "", err
		}
		if err := p.show(system); err != nil {
			return "", err
		}
	}
}

// readLines sends the lines of r until r or ctx ends. A blocked read of r cannot be
// interrupted, so its goroutine may outlive ctx.
func readLines(ctx context.Context, r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			select {
			case lines <- strings.TrimSpace(s.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// response inserts an answer into the environment's response format.
func (p *player) response(line string) string {
	switch {
	case p.wrap != "":
		return strings.ReplaceAll(p.wrap, "{}", line)
	case strings.Contains(line, "</"):
		return line
	}
	return p.style(line)
}

// showOutcome writes the result of a turn: actions, rewards, metrics and observation.
func (p *player) showOutcome(out env.Outcome) error {
	var parts []string
	for _, part := range out.Reward {
		parts = append(parts, fmt.Sprintf("%s %g", part.Name, part.Value))
	}
	var metrics []string
	for _, name := range slices.Sorted(maps.Keys(out.Turn)) {
		metrics = append(metrics, fmt.Sprintf("%s %g", name, out.Turn[name]))
	}
	fmt.Fprintf(p.c.Out, "\nactions %q, reward %g (%s); %s\n", out.Response.Actions, out.Reward.Sum(),
		strings.Join(parts, ", "), strings.Join(metrics, ", "))
	return p.show(out.Observation)
}

// show writes an observation with its images at their marks.
func (p *player) show(o env.Observation) error {
	texts := strings.Split(o.Text, env.ImageMark)
	for i, text := range texts {
		fmt.Fprint(p.c.Out, term.Escape(text))
		if i < len(o.Images) && i < len(texts)-1 {
			if err := p.picture(o.Images[i]); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(p.c.Out)
	return err
}

func (p *player) picture(m image.Image) error {
	p.pictures++
	if p.protocol != termimage.None {
		fmt.Fprintln(p.c.Out)
		return termimage.Write(term.Raw(p.c.Out), p.protocol, m)
	}
	if p.folder == "" {
		dir, err := os.MkdirTemp("", "vagen-play-")
		if err != nil {
			return fmt.Errorf("no folder for images can be made, set --images: %w", err)
		}
		p.folder = dir
	} else if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	name := filepath.Join(p.folder, fmt.Sprintf("%03d.png", p.pictures))
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(png.Encode(f, m), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.c.Out, "[%s]", name)
	return err
}
