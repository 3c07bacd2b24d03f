package main

import (
	"context"
	"errors"
	"flag"
	"image"
	"io/fs"
	"os"
	"strings"

	"vagen/internal/cli"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

func generateCommand() *cli.Command {
	return &cli.Command{
		Name:  "generate",
		About: "Let a model write a response, and show it as it is written.",
		Help: `"<image>" in the prompt marks where an image goes; images without a mark go in
front of it.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			dir := f.String("model", "", "`folder` of the model, or its id on the hub")
			prompt := f.String("prompt", "", "what to say to it")
			system := f.String("system", "", "system message; empty leaves the chat template's")
			var images, stops cli.StringList
			f.Var(&images, "image", "PNG or JPEG `file`; may be given again")
			f.Var(&stops, "stop", "`text` that ends the response; may be given again")
			var s policy.Sampling
			f.Float64Var(&s.Temperature, "temperature", 1, "divides the logits; 0 takes the most likely token")
			f.IntVar(&s.TopK, "top-k", 0, "keep the k most likely tokens; 0 keeps all")
			f.Float64Var(&s.TopP, "top-p", 1, "keep the smallest set of tokens with this probability")
			f.Float64Var(&s.MinP, "min-p", 0, "drop tokens below this share of the most likely one")
			f.IntVar(&s.MaxTokens, "max-tokens", 256, "longest response")
			f.IntVar(&s.Thinking.Tokens, "thinking", 0, "longest thinking in tokens, after which it is closed; 0 is no limit")
			f.StringVar(&s.Thinking.Open, "think-open", "<think>", "`tag` that opens thinking; empty when the chat template writes it")
			f.StringVar(&s.Thinking.Close, "think-close", "</think>", "`tag` that closes it")
			seed := f.Uint64("seed", 0, "decides what is sampled")
			options := modelFlags(f)
			return func(ctx context.Context, c *cli.Call) error {
				switch {
				case *dir == "":
					return cli.Usagef("--model is missing")
				case *prompt == "" && len(images) == 0:
					return cli.Usagef("--prompt is missing")
				}
				user, err := userMessage(*prompt, images)
				if err != nil {
					return err
				}
				s.StopStrings = stops
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

// userMessage reads the images and gives each a place in the text.
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
		return msg, cli.Usagef("the prompt has %d marks %s, but there are %d images", marks, mark, len(files))
	}
	msg.Text = strings.Repeat(mark, len(files)-marks) + text
	return msg, nil
}

func readImage(name string) (image.Image, error) {
	f, err := os.Open(name)
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

// write shows the text of a response as it comes.
func write(ctx context.Context, c *cli.Call, m *vlm.Model, p policy.Prompt, s policy.Sampling) error {
	d := m.Tokenizer().NewDecoder(true)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	written := false
	show := func(text string) {
		written = written || text != ""
		if _, err := c.Out.Write([]byte(text)); err != nil {
			stop(err) // nobody reads on
		}
	}
	out, err := m.Stream(ctx, []policy.Prompt{p}, s, func(_ int, token int32) { show(d.Add(token)) })
	show(d.Flush())
	if written || err == nil && out[0].Err == nil {
		show("\n")
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err != nil {
		return blame(err)
	}
	if err := out[0].Err; err != nil {
		return blame(err)
	}
	c.Log.Info("response ended", "why", out[0].Stop, "tokens", len(out[0].Tokens), "read", len(out[0].Context))
	return nil
}

// blame marks errors about what the caller named as the caller's mistake.
func blame(err error) error {
	for _, mistake := range []error{vlm.ErrOption, vlm.ErrBackend, vlm.ErrSampling, policy.ErrNoRoom, processor.ErrImage, tokenizer.ErrText, fs.ErrNotExist} {
		if errors.Is(err, mistake) {
			return cli.Usagef("%w", err)
		}
	}
	return err
}
