package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// help writes the help of the command that args name.
func help(w io.Writer, root *Command, args []string) error {
	cmd, path := root, root.Name
	for _, name := range args {
		sub, err := cmd.find(path, name)
		if err != nil {
			return err
		}
		cmd, path = sub, path+" "+sub.Name
	}
	writeHelp(w, cmd, path)
	return nil
}

func (c *Command) synopsis(path string) string {
	if c.Setup == nil {
		return path + " COMMAND …"
	}
	return strings.TrimSpace(path + " [flags] " + c.Args)
}

func writeHelp(w io.Writer, c *Command, path string) {
	fmt.Fprintf(w, "%s\n\n%s\n", c.synopsis(path), c.About)
	if c.Help != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Help))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if c.Setup == nil {
		fmt.Fprint(t, "\nCommands:\n")
		for _, sub := range c.Commands {
			fmt.Fprintf(t, "  %s\t%s\n", sub.Name, sub.About)
		}
		fmt.Fprintf(t, "\n%s COMMAND --help explains a command.\n", path)
	} else {
		f, _, _ := c.flags(path, new(Call))
		fmt.Fprint(t, "\nFlags:\n")
		f.VisitAll(func(g *flag.Flag) { writeFlag(t, g) })
	}
	t.Flush() // an error of writing help cannot be reported
}

func writeFlag(w io.Writer, g *flag.Flag) {
	kind, usage := flag.UnquoteUsage(g)
	name := "--" + g.Name
	if kind != "" {
		name += " " + kind
	}
	if d := g.DefValue; !slices.Contains([]string{"", "false", "[]"}, d) && !strings.Contains(usage, "default") {
		usage += fmt.Sprintf(" (default %s)", d)
	}
	fmt.Fprintf(w, "  %s\t%s\n", name, usage)
}
