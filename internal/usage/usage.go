// Package usage reports the memory and CPU time that this process uses. Figures
// that the system does not report are 0.
package usage
