package config

import (
	"errors"
	"fmt"
	"io/fs"

	"vagen/internal/durable"
)

func (v *validator) autotune(m *ModelConfig) {
	switch {
	case m.Autotune == "" && m.AutotuneSum != "":
		v.Say("{model.autotune_sha256} is %q, but {model.autotune} is empty", m.AutotuneSum)
	case m.Autotune != "" && m.Backend != "cuda":
		v.Say("{model.autotune} is %q, but {model.backend} is %q, must be cuda: other backends do not choose between kernels", m.Autotune, m.Backend)
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
