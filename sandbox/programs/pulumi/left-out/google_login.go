// In place of logins to Google's stores.
package authhelpers

import (
	"context"
	"errors"

	"gocloud.dev/blob"
)

func GoogleCredentialsMux(context.Context) (*blob.URLMux, error) {
	return nil, errors.New("this pulumi is the sandbox's own, built without the stores of clouds: use file://")
}
