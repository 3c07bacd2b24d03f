package config

import (
	"errors"
	"fmt"
	"io/fs"

	"vagen/internal/durable"
	"vagen/internal/field"
)

// CheckPrograms checks how a model's programs are made: Autotune, AutotuneSum and PerCall. group begins
// their keys, and backend is the key of Backend.
func (m *ModelConfig) CheckPrograms(c *field.Checks, group, backend string) {
	switch {
	case m.Autotune == "" && m.AutotuneSum != "":
		c.Say("{%sautotune_sha256} is %q, but {%sautotune} is empty", group, m.AutotuneSum, group)
	case m.Autotune != "" && m.Backend != "cuda":
		c.Say("{%sautotune} is %q, but {%s} is %q, must be cuda: other backends do not choose between kernels", group,
			m.Autotune, backend, m.Backend)
	}
	switch n := m.PerCall; {
	case n != 0 && n != 1 && n != 2 && n != 4 && n != 8:
		c.Say("{%stokens_per_call} is %d, must be 0, 1, 2, 4 or 8", group, n)
	case n > 1 && m.Backend == "go":
		c.Say("{%stokens_per_call} is %d, must be 0 or 1 with {%s} go", group, n, backend)
	}
}

// PinAutotune sets model.autotune_sha256 to the sum of the file model.autotune, if the file exists and the key is
// not set. The key is part of the stored configuration, so a run that resumes with another file
// has another configuration.
func (c *Config) PinAutotune() error {
	if c.Model.Autotune == "" || c.Model.AutotuneSum != "" {
		return nil
	}
	sum, err := durable.SumOf(c.Model.Autotune)
	if errors.Is(err, fs.ErrNotExist) { // the run measures
		return nil
	}
	if err != nil {
		return fmt.Errorf("config: %w: model.autotune: %w", ErrConfig, err)
	}
	c.Model.AutotuneSum = sum.SHA256
	return nil
}
