package main

import (
	"context"
	"errors"
	"flag"
	"image"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/regular"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

func generateCommand() *cli.Command {
	return &cli.Command{
		Name:  "generate",
		About: "Generate a response with a model and print it while it is generated.",
		Help: `"<image>" in the prompt marks the position of an image; images without a mark are put
before the prompt.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			dir := f.String("model", "", "`folder` of the model, or its id on the hub")
			prompt := f.String("prompt", "", "`text` of the user message")
			system := f.String("system", "", "system message; empty uses that of the chat template")
			var images, stops cli.StringList
			f.Var(&images, "image", "PNG or JPEG `file`; may be repeated")
			f.Var(&stops, "stop", "`text` that ends the response; may be repeated")
			var s policy.Sampling
			f.Float64Var(&s.Temperature, "temperature", 1, "divides the logits; 0 selects the most likely token")
			f.IntVar(&s.TopK, "top-k", 0, "keep the k most likely tokens; 0 keeps all")
			f.Float64Var(&s.TopP, "top-p", 1, "keep the smallest set of tokens with this probability")
			f.Float64Var(&s.MinP, "min-p", 0, "drop tokens below this share of the most likely one")
			f.IntVar(&s.MaxTokens, "max-tokens", 256, "maximum tokens of the response")
			f.IntVar(&s.Thinking.Tokens, "thinking", 0,
				"maximum tokens of thinking, after which the closing tag is inserted; 0 is no limit")
			f.StringVar(&s.Thinking.Open, "think-open", "<think>",
				"`tag` that opens thinking, also if the chat template writes it; empty if responses start inside it")
			f.StringVar(&s.Thinking.Close, "think-close", "</think>", "`tag` that closes thinking")
			seed := f.Uint64("seed", 0, "seed of sampling")
			options := modelFlags(f)
			return func(ctx context.Context, c *cli.Call) error {
				switch {
				case *dir == "":
					return cli.Usagef("--model is missing")
				case *prompt == "" && len(images) == 0:
					return cli.Usagef("--prompt is missing")
				}
				if err := idleInGenerate(c, &s); err != nil {
					return err
				}
				s.StopStrings = stops
				if err := s.Check(); err != nil {
					return cli.Usagef("%w", err)
				}
				user, err := userMessage(*prompt, images)
				if err != nil {
					return err
				}
				m, err := openModel(ctx, c, *dir, options)
				if err != nil {
					return err
				}
				defer m.Close()
				p := policy.Prompt{Conversation: 1, Seed: *seed, Messages: []policy.Message{user}}
				if *system != "" {
					p.Messages = append([]policy.Message{{Role: policy.System, Text: *system}}, p.Messages...)
				}
				return write(ctx, c, m, p, s)
			}
		},
	}
}

// idleInGenerate refuses flags that have no effect on one response.
func idleInGenerate(c *cli.Call, s *policy.Sampling) error {
	if s.Thinking.Tokens == 0 {
		if err := c.Idle("--thinking sets no limit", "think-open", "think-close"); err != nil {
			return err
		}
	}
	return c.Idle("there is one prompt, which shares nothing", "share-prefix")
}

// userMessage reads the images and adds missing image marks to the text.
func userMessage(text string, files []string) (policy.Message, error) {
	const mark = "<image>"
	msg := policy.Message{Role: policy.User}
	for _, name := range files {
		im, err := readImage(name)
		if err != nil {
			return msg, err
		}
		msg.Images = append(msg.Images, im)
	}
	marks := strings.Count(text, mark)
	if marks > len(files) {
		return msg, cli.Usagef("--prompt has %d marks %s, but there are %d images", marks, mark, len(files))
	}
	msg.Text = strings.Repeat(mark, len(files)-marks) + text
	return msg, nil
}

func readImage(name string) (image.Image, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	defer f.Close()
	im, err := processor.DecodeImage(f, processor.DefaultLimits())
	if err != nil {
		return nil, cli.Usagef("%s: %w", name, err)
	}
	return im, nil
}

// write prints a response while it is generated.
func write(ctx context.Context, c *cli.Call, m *vlm.Model, p policy.Prompt, s policy.Sampling) error {
	d := m.Tokenizer().NewDecoder(tokenizer.SkipSpecial)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	written := false
	show := func(text string) {
		written = written || text != ""
		if _, err := c.Out.Write([]byte(text)); err != nil {
			stop(err) // the output is closed
		}
	}
	opened := m.Opened() // by the chat template: the response begins with it
	out, err := m.Stream(ctx, []policy.Prompt{p}, s, func(_ int, token int32) {
		show(opened + d.Add(token))
		opened = ""
	})
	show(d.Flush())
	if written || err == nil && out[0].Err == nil {
		show("\n")
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err != nil {
		return asUsage(err, badInput...)
	}
	if err := out[0].Err; err != nil {
		return asUsage(err, badInput...)
	}
	c.Log.Info("response ended", "reason", out[0].Stop, "tokens", len(out[0].Tokens), "context", len(out[0].Context))
	return nil
}

// badInput are the errors about the caller's input.
var badInput = append(badPath, vlm.ErrOption, vlm.ErrBackend, policy.ErrSampling, policy.ErrNoRoom, processor.ErrImage,
	tokenizer.ErrText)
