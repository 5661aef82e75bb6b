// In place of `pulumi api`, which reads a description of Pulumi Cloud's API: a library of OpenAPI, a fifth of the build.
package cloud

import (
	"errors"

	"github.com/spf13/cobra"
)

// ParamSpec is what the files that stay name of those that do not.
type ParamSpec struct{}

// NewAPICmd is the command, which says why it does nothing.
func NewAPICmd() *cobra.Command {
	return &cobra.Command{
		Use:    "api",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this pulumi is the sandbox's own, built without `pulumi api`")
		},
	}
}
