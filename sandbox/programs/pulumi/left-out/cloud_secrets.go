// In place of the secrets providers of Azure Key Vault, AWS KMS, Google KMS and Vault.
package cloud

import (
	"encoding/json"
	"errors"

	"github.com/pulumi/pulumi/pkg/v3/secrets"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

// Type is what a state names such a provider.
const Type = "cloud"

var errLeftOut = errors.New("this pulumi is the sandbox's own, built without the secrets providers of clouds: use a passphrase")

func EditProjectStack(*workspace.ProjectStack, json.RawMessage) error {
	return errLeftOut
}

func NewCloudSecretsManagerFromState(json.RawMessage) (secrets.Manager, error) {
	return nil, errLeftOut
}

func NewCloudSecretsManager(*workspace.ProjectStack, string, bool) (secrets.Manager, error) {
	return nil, errLeftOut
}
