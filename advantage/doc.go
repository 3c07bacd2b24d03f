// Package advantage turns rewards and a critic's values into advantages.
package advantage
