package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vagen/internal/procgroup"
)

// download runs pip to fetch wheels into the stage and returns their files in the same
// order, each with the pinned SHA-256. The index is the one in the user's pip
// configuration.
func download(ctx context.Context, stage string, wheels ...wheel) ([]string, error) {
	pip, err := findPip(ctx, stage)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(stage, "wheels")
	list := filepath.Join(stage, "requirements.txt")
	var text strings.Builder
	for _, w := range wheels {
		text.WriteString(w.requirement())
	}
	if err := os.WriteFile(list, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	// One retry: pip's default of five takes long without network.
	err = run(ctx, stage, append(pip, "download", "--quiet", "--no-input", "--disable-pip-version-check",
		"--retries", "1", "--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", dir, "-r", list)...)
	if err != nil {
		return nil, err
	}
	files := make([]string, len(wheels))
	for i, w := range wheels {
		if files[i], err = w.find(dir); err != nil {
			return nil, err
		}
		if err := w.check(ctx, files[i]); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// findPip returns the first command that runs pip.
func findPip(ctx context.Context, stage string) ([]string, error) {
	const patience = 30 * time.Second
	var problems error
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}} {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := run(limited, stage, append(pip, "--version")...)
		cancel()
		if err == nil {
			return pip, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, exec.ErrNotFound) {
			problems = also(problems, err)
		}
	}
	if problems == nil {
		return nil, errors.New("no pip found: python3, python, pip3 and pip are missing in $PATH")
	}
	return nil, fmt.Errorf("no working pip: %w", problems)
}

// run runs a command in the stage, which also holds its temporary files, so that
// killing it leaves nothing behind. The error includes the end of its output.
func run(ctx context.Context, stage string, argv ...string) error {
	const grace = 5 * time.Second // for pipes that a child process keeps open
	exe, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, argv[1:]...)
	cmd.Dir = stage
	out := &procgroup.Tail{Most: 240}
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "TMPDIR="+stage), out, out
	if err = procgroup.Run(cmd, grace); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	shown := strings.Join(strings.Fields(string(out.Bytes)), " ") // on one line
	return fmt.Errorf("%s: %w: %s", strings.Join(argv[:min(4, len(argv))], " "), err, shown)
}
