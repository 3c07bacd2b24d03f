package view

import "time"

func init() { pollEvery = 20 * time.Millisecond }
