package generate_test

import (
	"testing"

	"vagen/policy/vlm/internal/vlmtest"
)

func TestMain(m *testing.M) { vlmtest.Main(m) }
