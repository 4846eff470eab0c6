package install

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

const (
	scramIterations = 4096
	scramSaltBytes  = 16
)

var errPassword = errors.New("a password must be printable ASCII, without spaces")

// verifier returns the verifier that Postgres stores for a password, so that the password itself never
// reaches the server or its log.
//
// Errors: for passwords that SASLprep might change, which are not supported.
//
// Source: RFC 5803; its layout in Postgres is SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey.
func verifier(password string) (string, error) {
	for _, b := range []byte(password) {
		if b <= ' ' || b > '~' {
			return "", errPassword
		}
	}
	salt := make([]byte, scramSaltBytes)
	rand.Read(salt) // never fails
	return saltedVerifier(password, salt, scramIterations)
}

func saltedVerifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(authenticate(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(authenticate(salted, "Server Key"))), nil
}

func authenticate(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message)) // never fails
	return h.Sum(nil)
}
