-- Functions are gone before; nothing else was changed.
BEGIN;
COMMIT;
