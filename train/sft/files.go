package sft

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/jsontext"
	"vagen/internal/parquetsize"
	"vagen/internal/regular"
	"vagen/train/config"
)

// Limits of files.
const (
	maxLine    = 256 << 20 // bytes of a line of JSON, which may contain images
	maxFaults  = 20        // errors to report; more would not help
	maxRecords = 1 << 24   // records of a file
)

// expand replaces folders by the files of examples in them, in alphabetical order. Files of
// scores, which runs write beside episodes, are no examples.
func expand(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExample, err)
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExample, err)
		}
		n := len(out)
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if !e.IsDir() && (ext == ".jsonl" || ext == ".parquet") && !strings.HasSuffix(e.Name(), ".scores.parquet") &&
				!strings.HasPrefix(e.Name(), ".") {
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("%w: the folder %s has no files in .jsonl or .parquet", ErrExample, path)
		}
	}
	return out, nil
}

// conversations collects the conversations of a file, and the errors of its records.
type conversations struct {
	config *config.SFTConfig
	dir    string
	out    []source
	faults []error
}

// add converts a record. It returns false after too many errors.
func (c *conversations) add(where string, record map[string]any) bool {
	msgs, err := conversation(c.config, record, c.dir)
	if err != nil {
		return c.fault(where, err)
	}
	tools, err := jsonList(record[toolsKey], false)
	if err != nil {
		return c.fault(where, fmt.Errorf("%s: %w", toolsKey, err))
	}
	c.out = append(c.out, source{where: where, messages: msgs, tools: tools})
	return true
}

func (c *conversations) fault(where string, err error) bool {
	c.faults = append(c.faults, fmt.Errorf("%s: %w", where, err))
	return len(c.faults) < maxFaults
}

// result returns the conversations of a file.
func (c *conversations) result(path string) ([]source, error) {
	if len(c.faults) > 0 {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrExample, errors.Join(c.faults...))
	}
	if len(c.out) == 0 {
		return nil, fmt.Errorf("%s: %w: the file has no conversations", path, ErrExample)
	}
	for i := range c.out {
		c.out[i].where = path + ": " + c.out[i].where
	}
	return c.out, nil
}

// lines reads conversations in JSON lines. Empty lines are skipped.
func (c *conversations) lines(ctx context.Context, r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for in.Scan() {
		n++
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		where := fmt.Sprintf("line %d", n)
		var record map[string]any
		more := true
		if err := jsontext.UnmarshalLine(in.Bytes(), n, &record); err != nil {
			more = c.fault(where, fmt.Errorf("it is not a JSON object: %w", err))
		} else {
			keepTools(record, in.Bytes(), n)
			more = c.add(where, record)
		}
		if !more {
			return nil
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

// table reads conversations in the rows of a parquet file.
func (c *conversations) table(ctx context.Context, f *parquet.File) error {
	if f.NumRows() == 0 {
		return errors.New("it has 0 rows")
	}
	wanted, names := parquet.Group{}, []string(nil)
	for _, field := range f.Schema().Fields() {
		names = append(names, field.Name())
		for _, key := range []string{c.config.Messages, c.config.Prompt, c.config.Response, c.config.Images, toolsKey} {
			outer, _, _ := strings.Cut(key, ".")
			if field.Name() == key || field.Name() == outer {
				wanted[field.Name()] = field
			}
		}
	}
	if _, ok := wanted[toolsKey]; len(wanted) == 0 || ok && len(wanted) == 1 {
		return fmt.Errorf("the columns are %s, but %s or %s is needed: name them in sft.messages_key, or in sft.prompt_key and sft.response_key",
			strings.Join(names, ", "), c.config.Messages, c.config.Prompt)
	}
	in, err := parquetsize.NewRows(f, parquet.NewSchema("examples", wanted))
	if err != nil {
		return err
	}
	defer in.Close()
	for n := 0; n < maxRecords; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		where := fmt.Sprintf("row %d", n)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		record, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: it is %s, must have columns", where, kindOf(v))
		}
		if !c.add(where, record) {
			return nil
		}
	}
	return fmt.Errorf("there are more than %d rows, the maximum", maxRecords)
}

// readFile reads the examples of a file by its ending and, for parquet, its columns.
func (o *opener) readFile(ctx context.Context, path string) ([]source, error) {
	c := &conversations{config: &o.config.SFT, dir: filepath.Dir(path)}
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExample, err)
	}
	defer f.Close()
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".jsonl":
		err = c.lines(ctx, f)
	case ".parquet":
		var recorded bool
		if recorded, err = readParquet(ctx, f, c); recorded {
			return o.readEpisodes(ctx, path)
		}
	default:
		err = fmt.Errorf("its name ends in %q, must end in .jsonl or .parquet", ext)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrExample, err)
	}
	return c.result(path)
}

// episodesKey is in the metadata of files of package rollout/store.
const episodesKey = "vagen.trajectories"

// readParquet reads the conversations of a parquet file, or reports that it contains recorded
// episodes.
func readParquet(ctx context.Context, f *os.File, c *conversations) (recorded bool, err error) {
	defer func() { // the parquet library may panic on damaged files
		if p := recover(); p != nil {
			err = fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	info, err := f.Stat()
	if err == nil {
		err = parquetsize.Footer(f, info.Size())
	}
	if err != nil {
		return false, err
	}
	in, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return false, err
	}
	if _, ok := in.Lookup(episodesKey); ok {
		return true, nil
	}
	if err := parquetsize.Check(in, f, info.Size()); err != nil {
		return false, err
	}
	return false, c.table(ctx, in)
}

// readFiles reads the examples of files and folders.
func (o *opener) readFiles(ctx context.Context, key string, paths []string) ([]source, error) {
	paths, err := expand(paths)
	if err != nil {
		return nil, fmt.Errorf("sft.%s: %w", key, err)
	}
	var all []source
	var faults []error
	for _, path := range paths {
		read, err := o.readFile(ctx, path)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("sft.%s: %w", key, err))
			continue
		}
		all = append(all, read...)
	}
	return slices.Clip(all), errors.Join(faults...)
}
